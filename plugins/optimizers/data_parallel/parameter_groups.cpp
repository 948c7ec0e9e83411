#include "parameter_groups.hpp"

#include <fnmatch.h>

#include <algorithm>

#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

void ParameterGroup::describe(Schema<ParameterGroup>& s) {
  s.field("match",
          &ParameterGroup::match,
          "parameters of this group: their names, with * for any characters, ? for one and [ab] "
          "for one of these (\"layers.*.mlp.*\"), or \"tag:\" and a tag (\"tag:embedding\")")
      .required();
  s.field(
       "lr_scale", &ParameterGroup::lr_scale, "times the learning rate; 0 keeps them as they are")
      .at_least(0)
      .also("--decoupled-lr", "is lr_scale of a group in [optimizer.groups] here");
  s.field("weight_decay",
          &ParameterGroup::weight_decay,
          "instead of the rule's; auto: the rule's, none for biases and norms")
      .at_least(0);
}

namespace {

// `parameter`: a Parameter or a ParameterName.
template <class P>
bool belongs(const P& parameter, const ParameterGroup& group) {
  constexpr std::string_view kTag = "tag:";
  const bool by_tag = group.match.starts_with(kTag);
  const char* pattern = group.match.c_str() + (by_tag ? kTag.size() : 0);
  const auto matches = [pattern](const std::string& text) {
    return fnmatch(pattern, text.c_str(), FNM_NOESCAPE) == 0;
  };
  return by_tag ? std::ranges::any_of(parameter.tags, matches) : matches(parameter.name);
}

}  // namespace

void check_groups(std::span<const ParameterName> model,
                  const std::map<std::string, ParameterGroup>& groups) {
  for (const auto& [name, group] : groups) {
    const auto here = [&group = group](const ParameterName& p) { return belongs(p, group); };
    if (std::ranges::any_of(model, here)) continue;
    fail_config("optimizer.groups.{}.match: {} is the name or tag of no parameter",
                name,
                quote(group.match));
  }
}

std::vector<Hyper> hyper_of(std::span<Parameter* const> parameters,
                            const std::map<std::string, ParameterGroup>& groups,
                            double weight_decay) {
  std::vector<Hyper> out;
  for (const Parameter* parameter : parameters) {
    Hyper hyper = usual_hyper(*parameter, weight_decay);
    const std::string* owner = nullptr;
    for (const auto& [name, group] : groups) {
      if (!belongs(*parameter, group)) continue;
      if (owner != nullptr) {
        fail_config(
            "the parameter {} is in two groups, [optimizer.groups.{}] and [optimizer.groups.{}]; "
            "make their match disjoint",
            parameter->name,
            *owner,
            name);
      }
      owner = &name;
      hyper.lr_scale = group.lr_scale;
      if (group.weight_decay) hyper.weight_decay = *group.weight_decay;
    }
    out.push_back(hyper);
  }
  return out;
}

}  // namespace tessera

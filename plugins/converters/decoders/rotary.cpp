#include "rotary.hpp"

#include <algorithm>

#include "tessera/error.hpp"

namespace tessera {

namespace {

constexpr const char* kOurs = ".attention.rotary.";  // below a block
constexpr const char *kScaling = "rope_scaling.", *kParameters = "rope_parameters.";

// A number that stretches the angles, there and here.
struct Number {
  const char *theirs, *ours;
};
constexpr Number kFactor = {"factor", "factor"};
constexpr Number kOriginal = {"original_max_position_embeddings", "original_positions"};
// Absent unless they are given.
constexpr Number kOptional[] = {{"attention_factor", "attention_factor"},
                                {"mscale", "mscale"},
                                {"mscale_all_dim", "mscale_all_dim"}};

bool is_optional(const char* theirs) {
  return std::ranges::any_of(
      kOptional, [&](const Number& one) { return std::string_view(one.theirs) == theirs; });
}

// What each type has.
struct Type {
  const char* name;
  std::vector<Number> numbers;
};
const std::vector<Type>& types() {
  static const std::vector<Type> kTypes = {{"default", {}},
                                           {"linear", {kFactor}},
                                           {"llama3",
                                            {kFactor,
                                             kOriginal,
                                             {"low_freq_factor", "low_frequency_factor"},
                                             {"high_freq_factor", "high_frequency_factor"}}},
                                           {"yarn",
                                            {kFactor,
                                             kOriginal,
                                             kOptional[0],
                                             kOptional[1],
                                             kOptional[2],
                                             {"beta_fast", "beta_fast"},
                                             {"beta_slow", "beta_slow"}}}};
  return kTypes;
}
constexpr const char* kNames = "\"default\", \"linear\", \"llama3\" and \"yarn\"";

const Type* type_of(const Value& name) {
  const auto found =
      std::ranges::find_if(types(), [&](const Type& type) { return name == Value(type.name); });
  return found == types().end() ? nullptr : &*found;
}

bool has_any(const Claims& theirs, std::string_view prefix) {
  const auto at = theirs.all().lower_bound(prefix);
  return at != theirs.all().end() && at->first.starts_with(prefix);
}

// The prefix of the object that says it.
std::string place_of(const Claims& theirs) {
  const bool scaling = has_any(theirs, kScaling), parameters = has_any(theirs, kParameters);
  if (scaling && parameters) {
    fail_config("{} has rope_scaling and rope_parameters: one of them is enough", theirs.file());
  }
  return parameters ? kParameters : kScaling;
}

const Type& type_in(Claims& theirs, const std::string& place) {
  std::string key = place + "type";  // its first name
  theirs.harmless({key});
  if (theirs.find(place + "rope_type") != nullptr) key = place + "rope_type";
  const Value name = theirs.get(key, "default");
  if (const Type* type = type_of(name)) return *type;
  fail_config("{} has {} = {}; only {} are supported", theirs.file(), key, name.text(), kNames);
}

}  // namespace

Settings rotary_to_ours(Claims& theirs, i64 positions, double base, bool interleaved) {
  const std::string place = place_of(theirs);
  const Type& type = type_in(theirs, place);
  const Value outside = theirs.get("rope_theta", base);
  const std::string ours = std::string("model.block") + kOurs;
  Settings all = {{ours + "type", type.name},
                  {ours + "base", theirs.get(place + "rope_theta", outside)},
                  {ours + "fraction", 1.0},
                  {ours + "interleaved", interleaved}};
  for (const std::string& key :
       {std::string("partial_rotary_factor"), place + "partial_rotary_factor"}) {
    theirs.only(key, 1.0);
  }
  theirs.only("rope_interleaved", false);
  theirs.only(place + "truncate", true);
  if (type.name != std::string_view("yarn")) theirs.refuse(place + "mscale*", "only yarn has it");
  const std::map<std::string_view, Value> otherwise = {
      {kOriginal.theirs, positions}, {"beta_fast", 32.0}, {"beta_slow", 1.0}};
  for (const auto& [there, here] : type.numbers) {
    const std::string key = place + there;
    const auto usual = otherwise.find(there);
    if (usual != otherwise.end()) {
      all[ours + here] = theirs.get(key, usual->second);
    } else if (!is_optional(there) || theirs.find(key) != nullptr) {
      all[ours + here] = theirs.get(key);
    }
  }
  return all;
}

Settings rotary_to_theirs(const ModelKeys& ours,
                          const std::string& block,
                          std::string_view format) {
  const auto key = [&](const char* name) { return block + kOurs + name; };
  const Value& name = ours.at(key("type"));
  const Type* type = type_of(name);
  if (type == nullptr) {
    fail_config("{} = {}; {} has {}", key("type"), name.text(), format, kNames);
  }
  ours.only(key("fraction"), 1.0);
  Settings theirs = {{"rope_theta", ours.at(key("base"))}};
  if (!type->numbers.empty()) theirs["rope_scaling.rope_type"] = name;
  for (const auto& [there, here] : type->numbers) {
    const Value* value = ours.find(key(here));
    const bool given = value != nullptr && *value != Value("auto") && *value != Value("none");
    if (is_optional(there) && !given) continue;
    theirs[std::string(kScaling) + there] = there == kOriginal.theirs
                                                ? ours.at(key(here), ours.at("model.positions"))
                                                : ours.at(key(here));
  }
  return theirs;
}

}  // namespace tessera

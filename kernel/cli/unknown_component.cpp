#include "kernel/cli/unknown_component.hpp"

#include <fmt/format.h>

#include <vector>

#include "tessera/error.hpp"
#include "tessera/suggest.hpp"

namespace tessera {

void fail_unknown_component(const PluginHost& host, const std::string& subject) {
  std::vector<std::string> names;
  for (const std::string& kind : host.kinds()) {
    for (const ComponentInfo* info : host.of_kind(kind)) names.push_back(kind + "/" + info->type);
  }
  std::string text = fmt::format("there is no component \"{}\"", subject);
  if (const auto near = nearest(subject, names)) {
    text += fmt::format("; did you mean \"{}\"?", *near);
  }
  std::vector<std::string> same_kind;
  const std::string kind = subject.substr(0, subject.find('/'));
  for (const ComponentInfo* info : host.of_kind(kind)) same_kind.push_back(info->type);
  text += same_kind.empty() ? fmt::format("\n  known kinds: {}", fmt::join(host.kinds(), ", "))
                            : fmt::format("\n  known {}s: {}", kind, fmt::join(same_kind, ", "));
  for (const std::string& failure : host.load_failures()) text += "\n  not loaded: " + failure;
  throw ConfigError(text);
}

}  // namespace tessera

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>

#include "kernel/cli/commands.hpp"
#include "kernel/cli/show.hpp"
#include "kernel/config/keys.hpp"
#include "kernel/launch/open_plugins.hpp"
#include "tessera/error.hpp"
#include "tessera/io/suggest.hpp"
#include "tessera/io/written.hpp"

namespace tessera {
namespace {

std::string shown_path(const PluginOrigin& origin) {
  if (origin.builtin()) return origin.name;
  std::error_code error;
  const std::string near = std::filesystem::proximate(origin.path, error).string();
  const std::string whole = origin.path.string();
  return error || near.starts_with("..") ? whole : near;
}

}  // namespace

int run_plugins_show(const PluginsOptions& options) {
  const auto host = open_plugins({options.path.begin(), options.path.end()});
  const std::string& subject = options.subject;
  const auto slash = subject.find('/');
  if (slash == std::string::npos) fail_unknown_component(*host, subject);
  const std::string kind = subject.substr(0, slash);
  const std::string type = subject.substr(slash + 1);
  const ComponentInfo* info = host->find(kind, type);
  if (info == nullptr) fail_unknown_component(*host, subject);

  const PluginOrigin& origin = *host->origin_of(kind, type);
  show("{}", subject);
  if (!origin.builtin()) show("   {}", origin.version);
  show("   {}   {}\n", shown_path(origin), info->doc);

  show("{}", rows_text(key_rows(info->fields)));
  return 0;
}

void fail_unknown_component(const PluginHost& host, const std::string& subject) {
  std::vector<std::string> names, types;
  for (const std::string& kind : host.kinds()) {
    for (const ComponentInfo* info : host.of_kind(kind)) {
      names.push_back(kind + "/" + info->type);
      types.push_back(info->type);
    }
  }
  std::vector<std::string> like;
  if (const auto near = nearest(subject, names)) {
    like.push_back(*near);
  } else if (const auto type = nearest(subject, types)) {  // written without its kind
    std::ranges::copy_if(names, std::back_inserter(like), [&](const std::string& name) {
      return name.ends_with("/" + *type);
    });
  }
  std::string text = fmt::format("there is no component {}", quote(subject));
  if (!like.empty()) text += fmt::format("; did you mean \"{}\"?", fmt::join(like, "\" or \""));
  std::vector<std::string> same_kind;
  const std::string kind = subject.substr(0, subject.find('/'));
  for (const ComponentInfo* info : host.of_kind(kind)) same_kind.push_back(info->type);
  text += same_kind.empty() ? fmt::format("\n  known kinds: {}", fmt::join(host.kinds(), ", "))
                            : fmt::format("\n  known {}s: {}", kind, fmt::join(same_kind, ", "));
  text += host.not_loaded();
  throw ConfigError(text);
}

}  // namespace tessera

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "kernel/cli/commands.hpp"
#include "kernel/cli/show.hpp"
#include "kernel/launch/open_plugins.hpp"
#include "kernel/plugin/check.hpp"
#include "kernel/plugin/search_path.hpp"
#include "tessera/io/utf8.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

int run_plugins_list(const PluginsOptions& options) {
  const auto host = open_plugins({options.path.begin(), options.path.end()});
  struct Row {
    std::string name, library, doc;
  };
  std::vector<Row> rows;
  std::size_t name_width = 0, library_width = 0;
  for (const std::string& kind : host->kinds()) {
    for (const ComponentInfo* info : host->of_kind(kind)) {
      rows.push_back({kind + "/" + info->type, host->library_of(kind, info->type), info->doc});
      name_width = std::max(name_width, rows.back().name.size());
      library_width = std::max(library_width, rows.back().library.size());
    }
  }
  for (const Row& row : rows) {
    show("{:<{}}   {:<{}}   {}\n", row.name, name_width, row.library, library_width, row.doc);
  }
  show("\nsearched:\n");
  for (const auto& folder : host->search()) show("  {}\n", folder.string());
  if (host->search().empty()) show("  no folder: there is none next to the program\n");
  for (const std::string& text : host->shadowed()) show("shadowed: {}\n", text);
  for (const std::string& text : host->load_failures()) show("not loaded: {}\n", text);
  return 0;
}

int run_plugins_check(const PluginsOptions& options) {
  // The child prints the path within lines.
  if (std::ranges::any_of(options.subject, is_control)) {
    show_error("plugin error: {}: a name with control characters is not checked\n",
               written_plain(options.subject));
    return 1;
  }
  const PluginCheck found = check_plugin(program_path(), options.subject);
  if (found.outcome == PluginCheck::good) {
    show("{}\n", found.text);
    return 0;
  }
  show_error("{}\n", found.text);
  return 1;
}

int run_plugins_check_child(const PluginsOptions& options) {
  return run_plugin_check_child(options.subject);
}

}  // namespace tessera

#include <fmt/format.h>

#include <cstdio>

#include "kernel/cli/commands.hpp"
#include "kernel/config/config.hpp"
#include "kernel/config/dump.hpp"
#include "kernel/config/resolve.hpp"
#include "kernel/launch/environment.hpp"
#include "kernel/launch/open_plugins.hpp"
#include "kernel/train/run/dry_run.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

Resolved load(const std::vector<std::string>& files, const std::vector<std::string>& sets) {
  const Config config = Config::load(files, sets);
  return resolve(config, *open_plugins(config.plugin_path()));
}

void print_notices(const Resolved& resolved) {
  for (const std::string& notice : resolved.notices) fmt::print(stderr, "{}\n", notice);
}

}  // namespace

int run_config_check(const ConfigOptions& options) {
  const Config config = Config::load(options.files, options.sets);
  const auto plugins = open_plugins(config.plugin_path());
  const Resolved resolved = resolve(config, *plugins);
  print_notices(resolved);
  const i64 world = world_size(resolved.run);
  checked_setup(resolved, *plugins, world, rank_threads(resolved.run.device, world));
  fmt::print("no problem found\n");
  return 0;
}

int run_config_dump(const ConfigOptions& options) {
  const Resolved resolved = load(options.files, options.sets);
  print_notices(resolved);
  fmt::print("{}", dump(resolved));
  return 0;
}

int run_config_diff(const ConfigOptions& options) {
  if (options.files.size() != 2) {
    fail_config("config diff compares two files, and was given {}", options.files.size());
  }
  const Resolved left = load({options.files[0]}, options.sets);
  const Resolved right = load({options.files[1]}, options.sets);
  for (const std::string& line : diff(left, right)) fmt::print("{}\n", line);
  return 0;
}

}  // namespace tessera

#include <fmt/format.h>

#include <cstdio>

#include "kernel/cli/commands.hpp"
#include "kernel/cli/show.hpp"
#include "kernel/config/config.hpp"
#include "kernel/config/dump.hpp"
#include "kernel/config/resolve.hpp"
#include "kernel/launch/environment.hpp"
#include "kernel/launch/open_plugins.hpp"
#include "kernel/train/run/dry_run.hpp"
#include "kernel/train/setup/epochs.hpp"
#include "tessera/error.hpp"
#include "tessera/log.hpp"

namespace tessera {
namespace {

Resolved load(const std::vector<std::string>& files, const std::vector<std::string>& sets) {
  const Config config = Config::load(files, sets);
  const auto plugins = open_plugins(config.plugin_path());
  return resolve(load_run(files, sets, *plugins, UnknownEpochs::one_step), *plugins);
}

// Loads one of two that are compared. Errors name it, as a missing key has no place.
Resolved load_one(const std::string& file, const std::vector<std::string>& sets) {
  try {
    return load({file}, sets);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{} cannot be compared:\n{}", file, error.what()));
  }
}

void print_notices(const Resolved& resolved) {
  for (const std::string& notice : resolved.notices) show_error("{}\n", notice);
}

}  // namespace

int run_config_check(const ConfigOptions& options) {
  const auto plugins = open_plugins(Config::load(options.files, options.sets).plugin_path());
  const CheckResult checked =
      check(load_run(options.files, options.sets, *plugins, UnknownEpochs::one_step), *plugins);
  const Resolved& resolved = checked.resolved;
  print_notices(resolved);
  const i64 world = world_size(resolved.run);
  ProblemList problems;
  if (!checked.problems.empty()) problems.add(report(checked.problems));
  try_setup(resolved, *plugins, world, rank_threads(resolved.run.device, world), problems);
  problems.throw_all();
  const i64 warnings = logged_warnings();
  const std::string count = fmt::format("{} warning{}", warnings, warnings == 1 ? "" : "s");
  if (options.strict && warnings > 0) fail_config("{}, which --strict makes an error", count);
  show("{}\n", warnings > 0 ? count : "no problem found");
  return 0;
}

int run_config_dump(const ConfigOptions& options) {
  const Resolved resolved = load(options.files, options.sets);
  print_notices(resolved);
  show_exact(dump(resolved));
  return 0;
}

int run_config_diff(const ConfigOptions& options) {
  const Resolved left = load_one(options.files.at(0), options.sets);
  const Resolved right = load_one(options.files.at(1), options.sets);
  for (const std::string& line : diff(left, right)) show("{}\n", line);
  return 0;
}

}  // namespace tessera

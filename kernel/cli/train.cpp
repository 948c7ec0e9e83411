#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>

#include "kernel/checkpoint/folders.hpp"
#include "kernel/cli/commands.hpp"
#include "kernel/cli/joined_rank.hpp"
#include "kernel/cli/show.hpp"
#include "kernel/config/dump.hpp"
#include "kernel/launch/environment.hpp"
#include "kernel/launch/launcher.hpp"
#include "kernel/launch/open_plugins.hpp"
#include "kernel/launch/processors.hpp"
#include "kernel/launch/signals.hpp"
#include "kernel/system/limits.hpp"
#include "kernel/train/run/dry_run.hpp"
#include "kernel/train/run/flight_records.hpp"
#include "kernel/train/run/trainer.hpp"
#include "kernel/train/setup/epochs.hpp"
#include "kernel/train/setup/make_rank.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"
#include "tessera/log.hpp"

namespace tessera {

namespace {

Opened open(const TrainOptions& options) {
  const Config config = Config::load(options.files, options.sets);
  Opened opened{open_plugins(config.plugin_path()), {}};
  opened.config =
      resolve(load_run(options.files, options.sets, *opened.plugins, UnknownEpochs::error),
              *opened.plugins);
  return opened;
}

// Runs one rank; `arguments` has its setup. Returns the exit code.
int run_rank(const Opened& opened, TrainerArguments& arguments) {
  // Nothing is lost before the first step, and a start may take minutes.
  StopFlag stop(StopFlag::SecondInterrupt::dies, StopFlag::Requests::from_begin);
  arguments.stop = [&stop] { return stop.requested(); };
  arguments.begin = [&stop] { stop.begin(); };
  arguments.config_text = dump(opened.config);
  arguments.command = program_arguments();
  arguments.plugins = opened.plugins->fingerprint();
  const bool done = train_rank(arguments);
  return stop.output_closed() ? kOutputClosed : done ? 0 : kInterrupted;
}

// Runs before waiting for the others: where ranks are too few or too many, they may never come.
void check_world(const Opened& opened, const RankEnvironment& environment) {
  const HostMaker maker(*opened.plugins, opened.config.tree);
  const auto& ranks = opened.config.run.comm.ranks;
  if (ranks && *ranks != environment.world) {
    fail_config("{}: [comm] ranks = {}, but {} started {}",
                maker.origin("comm", "ranks"),
                *ranks,
                environment.starter,
                environment.world);
  }
  layout_of(opened.config.run, maker, environment.world);
}

// Rank 0 of another launcher checks here what ours checks before it starts ranks: the configuration
// is the same on all.
void check_once(const Opened& opened, const RankIdentity& identity) {
  const auto check = [&] {
    checked_setup(opened.config, *opened.plugins, identity.world, identity.threads);
  };
  plane_of(opened, identity).decide("check of the configuration", check);
}

// How ranks start again: from what the run has saved, even where it began with checkpoint.resume =
// "none" or from another run's checkpoint.
Restart restart_from(const CheckpointSection& section) {
  const auto saved = complete_steps(section.out);
  if (saved.empty()) return {"as the first time: no checkpoint of this run is there yet"};
  Restart restart{"again from " + saved.front().string()};
  if (section.resume != "auto") restart.arguments = {"--set", "checkpoint.resume=auto"};
  return restart;
}

// Each rank reads the files anew, and what comes through a pipe is gone once it is read.
void check_files(const TrainOptions& options) {
  for (const std::string& file : options.files) {
    if (std::filesystem::is_regular_file(file)) continue;
    fail_config("{} is not a regular file, and every rank reads it: write the configuration to one",
                written_plain(file));
  }
}

void check_restarts(const TrainOptions& options, const Opened& opened) {
  if (options.restarts == 0 || opened.config.run.checkpoint.save) return;
  fail_config(
      "--restarts {} has nothing to start from: checkpoint.save = false; save checkpoints, or "
      "leave "
      "--restarts out",
      options.restarts);
}

[[noreturn]] void refuse_restarts(const RankEnvironment& environment) {
  fail_config(
      "--restarts is for ranks that tessera starts itself; {} started this one and would have to "
      "start all of them again: ask it to (torchrun --max-restarts, a loop around mpirun or srun), "
      "and leave --restarts out",
      environment.starter);
}

// Tells a user who chose no device that a GPU is unused.
void print_unused_units(const Opened& opened) {
  if (opened.config.tree->find("device.type")->is_set()) return;
  for (const ComponentInfo* device : opened.plugins->of_kind(Device::kKind)) {
    if (device->units == nullptr) continue;
    const DeviceUnits units = opened.plugins->units(*device);
    if (units.count == 0) continue;
    show_error("{}, and this run is on \"{}\", the default: set device.type = \"{}\" or \"auto\"\n",
               units.text,
               opened.config.run.device.device.type,
               device->type);
  }
}

void print_notices(const Opened& opened, i64 local_world) {
  for (const std::string& notice : opened.config.notices) show_error("{}\n", notice);
  const std::string limited = limited_threads_text(opened.config.run.device, local_world);
  if (!limited.empty()) show_error("{}\n", limited);
  print_unused_units(opened);
}

// Another starter than ours may have put ranks where they wait for each other.
void warn_of_crowded(const Opened& opened, const RankIdentity& identity) {
  const auto processors = plane_of(opened, identity).gather("processors", processors_of_rank());
  const std::string crowded = crowded_text(identity.hosts, processors);
  if (identity.rank == 0 && !crowded.empty()) log_warning("{}", crowded);
}

// A rank among several: started by our launcher or by another one.
int join(const TrainOptions& options, const RankEnvironment& environment) {
  RankWork work;
  work.open = [&] { return open(options); };
  work.begin = [&](const Opened& opened) {
    if (!environment.own && environment.rank == 0) print_notices(opened, environment.local_world);
    check_world(opened, environment);
    return flight_records_file(opened.config.run.run.out);
  };
  work.run = [&](const Opened& opened, RankIdentity& identity, const RankFailed& failed) {
    if (!environment.own) {
      warn_of_crowded(opened, identity);
      check_once(opened, identity);
    }
    const RunSetup setup =
        derive_setup(opened.config, *opened.plugins, environment.world, DataUse::kept);
    plane_of(opened, identity)
        .same({{"data", setup.dataset->fingerprint()}}, "give all hosts the same data");
    TrainerArguments arguments;
    arguments.joined = choose_links(opened, setup, identity);
    arguments.identity = identity;
    arguments.json = options.json;
    arguments.failed = failed;
    arguments.setup = &setup;
    return run_rank(opened, arguments);
  };
  return join_ranks(environment, work);
}

}  // namespace

int run_train(const TrainOptions& options) {
  const auto environment = detect_environment();
  if (environment && environment->own) return join(options, *environment);
  if (environment && environment->world > 1) {
    if (options.restarts > 0) refuse_restarts(*environment);
    return join(options, *environment);
  }

  const Opened opened = open(options);
  const i64 world = world_size(opened.config.run);
  print_notices(opened, world);
  const bool launches = world > 1 || options.restarts > 0;  // restarts need a launcher, too
  if (launches) check_files(options);
  check_restarts(options, opened);
  check_processors(opened, world);
  if (launches) check_units(opened, world);
  const int threads = rank_threads(opened.config.run.device, world);
  require_threads(threads);
  const RunSetup setup = checked_setup(opened.config, *opened.plugins, world, threads);
  if (launches) {
    return launch_ranks(
        world,
        program_arguments(),
        {.threads = threads,
         .flight_records = flight_records_file(opened.config.run.run.out),
         .stuck_after = seconds(opened.config.run.comm.timeout_s),
         .restarts = options.restarts,
         .restart = [&opened] { return restart_from(opened.config.run.checkpoint); }});
  }
  TrainerArguments arguments;
  arguments.setup = &setup;
  arguments.identity.threads = threads;
  arguments.json = options.json;
  return run_rank(opened, arguments);
}

}  // namespace tessera

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "kernel/checkpoint/folders.hpp"
#include "kernel/cli/commands.hpp"
#include "kernel/cli/show.hpp"
#include "kernel/comm/communicators.hpp"
#include "kernel/comm/control_plane/control_plane.hpp"
#include "kernel/comm/control_plane/pulse.hpp"
#include "kernel/config/dump.hpp"
#include "kernel/launch/absence_notice.hpp"
#include "kernel/launch/environment.hpp"
#include "kernel/launch/failure.hpp"
#include "kernel/launch/launcher.hpp"
#include "kernel/launch/open_plugins.hpp"
#include "kernel/launch/processors.hpp"
#include "kernel/launch/progress_board.hpp"
#include "kernel/launch/rendezvous.hpp"
#include "kernel/launch/signals.hpp"
#include "kernel/system/limits.hpp"
#include "kernel/train/run/dry_run.hpp"
#include "kernel/train/run/flight_records.hpp"
#include "kernel/train/run/trainer.hpp"
#include "kernel/train/setup/carried_memory.hpp"
#include "kernel/train/setup/make_rank.hpp"
#include "kernel/train/setup/own_units.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"
#include "tessera/log.hpp"

namespace tessera {

namespace {

std::chrono::milliseconds seconds(double seconds) {
  return std::chrono::milliseconds(static_cast<i64>(seconds * 1000));
}

// Configuration and plugins of a run, checked; the same on every rank.
struct Opened {
  std::shared_ptr<PluginHost> plugins;
  Resolved config;
};

Opened open(const TrainOptions& options) {
  const Config config = Config::load(options.files, options.sets);
  Opened opened{open_plugins(config.plugin_path()), {}};
  opened.config = resolve(config, *opened.plugins);
  return opened;
}

std::vector<Fact> facts(const Opened& opened, int threads) {
  std::string plugins;
  for (const PluginHost::Fingerprint& plugin : opened.plugins->fingerprint()) {
    plugins +=
        fmt::format("{} {} {} {:016x}\n", plugin.plugin, plugin.version, plugin.stamp, plugin.hash);
  }
  return {{"configuration", values_text(opened.config)},
          {"plugins", plugins},
          {"threads", std::to_string(threads)}};
}

ControlPlane plane_of(const Opened& opened, const RankIdentity& identity) {
  return identity.control_plane(seconds(opened.config.run.comm.init_timeout_s));
}

// Checks that all ranks run the same configuration, plugins and thread count, and finds out which
// share a host.
void meet(const Opened& opened, const RankEnvironment& environment, RankIdentity& identity) {
  const ControlPlane plane = plane_of(opened, identity);
  try {
    plane.same(facts(opened, identity.threads));
  } catch (const ConfigError&) {
    throw;  // all have come
  } catch (const Error& error) {
    explain_absence(environment, error).raise();
  }
  identity.hosts = plane.gather("host", host_identity());
}

// Says what joins the ranks, once it is known where they are. Returns it for people.
std::string choose_links(const Opened& opened, const RunSetup& setup, RankIdentity& identity) {
  if (identity.world == 1) return {};
  const CommSection& comm = opened.config.run.comm;
  const auto device = make_planned_device(rank_spec_of(setup));
  CommunicatorChoice choice = choose_communicators(
      comm.communicator.type, identity.hosts, auto_communicators(setup, *opened.plugins, *device));
  identity.communicator = std::move(choice.type);
  identity.between_hosts = std::move(choice.between);
  return comm.staged && identity.world > 1 ? choice.text + ", staged through memory of the host"
                                           : choice.text;
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

// Ranks that share a processor wait for each other by turns: a step of hundreds takes minutes.
void check_processors(const Opened& opened, i64 world) {
  constexpr i64 kRanksOfAProcessor = 8;
  const i64 processors = auto_threads(1);
  if (opened.config.run.comm.oversubscribe || world <= kRanksOfAProcessor * processors) return;
  fail_config(
      "{} ranks are too many for the {} processors of this host: set comm.oversubscribe = true to "
      "start more than {} for each, or start them on several hosts (kernel/launch/README.md)",
      world,
      processors,
      kRanksOfAProcessor);
}

// Runs before any rank starts: a rank would find out only after all others have started.
void check_units(const Opened& opened, i64 world) {
  const DeviceSection& device = opened.config.run.device;
  const std::string& type = device.device.type;
  const ComponentInfo* info = opened.plugins->find(Device::kKind, type);
  if (info == nullptr || info->units == nullptr) return;
  require_enough_units(type, opened.plugins->units(*info), world, device.share);
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
  std::optional<Rendezvous> rendezvous;
  std::optional<ProgressBoard> board;
  std::shared_ptr<Progress> progress;
  std::optional<Pulse> pulse;
  std::optional<bool> heard;  // what report_failure said, once it was called
  std::optional<Error> failure;
  std::string records;                              // file with what each rank did last
  const auto report = [&](const std::exception&) {  // where it is caught
    if (heard) return;
    failure = with_limit(error_in_flight());
    if (pulse) {
      // Our launcher hears of each rank and can tell causes from what repeats them.
      const bool ask = failure->kind() == ErrorKind::peer_silent || !environment.own;
      const std::string silent = ask ? pulse->who_is_silent(failure->kind()) : std::string();
      pulse->report();
      const ErrorFrame* const told = failure->frame(ErrorFrame::Kind::told);
      const bool known =
          failure->has(ErrorFrame::Kind::culprit) || (told != nullptr && told->text == silent);
      if (!silent.empty() && !known) failure->add(ErrorFrame::Kind::culprit, silent);
    }
    heard = report_failure(environment.report, *failure);
  };
  try {
    board.emplace(environment.progress, environment.world);
    progress = board->of(environment.rank);
    const Opened opened = open(options);
    if (!environment.own && environment.rank == 0) print_notices(opened, environment.local_world);
    check_world(opened, environment);
    records = flight_records_file(opened.config.run.run.out);
    const auto timeout = seconds(opened.config.run.comm.init_timeout_s);
    std::optional<AbsenceNotice> notice(std::in_place, environment, timeout);
    rendezvous.emplace(environment, timeout);
    notice->joined(rendezvous->store());
    pulse.emplace(rendezvous->store(),
                  environment.rank,
                  environment.world,
                  seconds(opened.config.run.comm.timeout_s),
                  *progress);
    TrainerArguments arguments;
    arguments.identity = {
        .rank = environment.rank,
        .world = environment.world,
        .local_rank = environment.local_rank,
        .local_world = environment.local_world,
        .store = &rendezvous->store(),
        .threads = environment.threads > 0
                       ? environment.threads
                       : rank_threads(opened.config.run.device, environment.local_world),
        .progress = progress};
    require_threads(arguments.identity.threads);
    arguments.json = options.json;
    arguments.failed = report;
    meet(opened, environment, arguments.identity);
    notice.reset();  // all have come
    if (!environment.own) {
      warn_of_crowded(opened, arguments.identity);
      check_once(opened, arguments.identity);
    }
    const RunSetup setup = derive_setup(opened.config, *opened.plugins, environment.world);
    plane_of(opened, arguments.identity)
        .same({{"data", setup.dataset->fingerprint()}}, "give all hosts the same data");
    arguments.joined = choose_links(opened, setup, arguments.identity);
    arguments.setup = &setup;
    const int code = run_rank(opened, arguments);
    if (code == kInterrupted) report_interrupted(environment.report);
    return code;
  } catch (const std::exception& error) {
    report(error);
    if (rendezvous) rendezvous->abandon();
    if (!*heard) {  // our launcher would print it
      std::error_code none;
      const bool refused = failure->kind() == ErrorKind::configuration;
      const bool written = !refused && std::filesystem::exists(records, none);
      if (written) log_info("what each rank did last: {}", records);
      failure->raise();
    }
    return failure->exit_code();
  }
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

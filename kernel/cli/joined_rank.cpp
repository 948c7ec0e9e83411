#include "kernel/cli/joined_rank.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "kernel/cli/show.hpp"
#include "kernel/comm/communicators.hpp"
#include "kernel/comm/control_plane/pulse.hpp"
#include "kernel/launch/absence_notice.hpp"
#include "kernel/launch/failure.hpp"
#include "kernel/launch/progress_board.hpp"
#include "kernel/launch/rendezvous.hpp"
#include "kernel/launch/signals.hpp"
#include "kernel/system/limits.hpp"
#include "kernel/train/setup/carried_memory.hpp"
#include "kernel/train/setup/own_units.hpp"
#include "tessera/error.hpp"
#include "tessera/log.hpp"

namespace tessera {

namespace {

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

}  // namespace

std::chrono::milliseconds seconds(double seconds) {
  return std::chrono::milliseconds(static_cast<i64>(seconds * 1000));
}

ControlPlane plane_of(const Opened& opened, const RankIdentity& identity) {
  return identity.control_plane(seconds(opened.config.run.comm.init_timeout_s));
}

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

void check_units(const Opened& opened, i64 world) {
  const DeviceSection& device = opened.config.run.device;
  const std::string& type = device.device.type;
  const ComponentInfo* info = opened.plugins->find(Device::kKind, type);
  if (info == nullptr || info->units == nullptr) return;
  require_enough_units(type, opened.plugins->units(*info), world, device.share);
}

int join_ranks(const RankEnvironment& environment, const RankWork& work) {
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
    const Opened opened = work.open();
    records = work.begin(opened);
    const auto timeout = seconds(opened.config.run.comm.init_timeout_s);
    std::optional<AbsenceNotice> notice(std::in_place, environment, timeout);
    rendezvous.emplace(environment, timeout);
    notice->joined(rendezvous->store());
    pulse.emplace(rendezvous->store(),
                  environment.rank,
                  environment.world,
                  seconds(opened.config.run.comm.timeout_s),
                  *progress);
    RankIdentity identity = {
        .rank = environment.rank,
        .world = environment.world,
        .local_rank = environment.local_rank,
        .local_world = environment.local_world,
        .store = &rendezvous->store(),
        .threads = environment.threads > 0
                       ? environment.threads
                       : rank_threads(opened.config.run.device, environment.local_world),
        .progress = progress};
    require_threads(identity.threads);
    meet(opened, environment, identity);
    notice.reset();  // all have come
    const int code = work.run(opened, identity, report);
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
      // Now: what follows may take seconds, in which the starter may kill this process.
      show_error("{}\n", failure->what());
    }
    return failure->exit_code();
  }
}

}  // namespace tessera

#include "kernel/launch/rendezvous.hpp"

#include <atomic>
#include <exception>

#include "kernel/comm/control_plane/pulse.hpp"
#include "kernel/launch/environment.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"
#include "tessera/log.hpp"

namespace tessera {

namespace {

using namespace std::chrono_literals;

// The other ranks end right after this one; what takes longer is no part of a run.
constexpr auto kLeaving = 30s;
// A rank that has failed leaves soon; a frozen one never does.
constexpr auto kFailing = 5s;
constexpr std::string_view kCount = "launch/left";
constexpr std::string_view kAllLeft = "launch/all left";

// Adds to an error of joining the rank that serves the store, where our launcher did not start the
// ranks.
Error name_server(const RankEnvironment& env,
                  const Error& error,
                  std::chrono::milliseconds timeout) {
  const bool own = env.own || env.rank == 0;
  if (own || error.kind() == ErrorKind::configuration) return error;
  if (error.kind() == ErrorKind::peer_silent) {
    return Error(error).add(ErrorFrame::Kind::culprit, kStoreIsSilent);
  }
  if (try_connect(StoreAddress::parse(env.store))) return error;  // it refuses this rank
  return Error(error).add(ErrorFrame::Kind::note,
                          fmt::format("rank 0 did not start within {:.1f} s (comm.init_timeout_s)",
                                      std::chrono::duration<double>(timeout).count()));
}

}  // namespace

Rendezvous::Rendezvous(const RankEnvironment& env, std::chrono::milliseconds timeout)
    : world_(env.world), exceptions_(std::uncaught_exceptions()) {
  if (!env.own && env.rank == 0) {
    server_ = std::make_unique<StoreServer>(env.store, env.token, env.world);
  }
  try {
    store_ = std::make_unique<SocketStore>(env.store, env.token, env.rank, env.world, timeout);
  } catch (const Error& error) {
    explain_absence(env, name_server(env, error, timeout)).raise();
  }
}

Rendezvous::~Rendezvous() {
  if (abandoned_ || std::uncaught_exceptions() > exceptions_) {
    // Its connection closes with the process, after this rank's report: a server elsewhere takes
    // that for a death. Kept where leak checkers find it.
    static std::atomic<SocketStore*> open_to_the_end;
    open_to_the_end = store_.release();
    try {
      if (server_) server_->outlast_others(0, kFailing);
    } catch (const std::exception&) {  // out of memory
    }
    return;
  }
  try {
    leave();
  } catch (const std::exception& error) {
    log_warning("leaving the run: {}", error.what());
  }
}

void Rendezvous::leave() {
  if (store_->add(kCount, 1) == world_) store_->set(kAllLeft, "");
  if (server_) store_->get(kAllLeft, kLeaving);
}

Error explain_absence(const RankEnvironment& env, const Error& error) {
  std::string why;
  if (env.unnamed_job) {
    why += fmt::format(
        "{} gives its job no name, so the ranks meet at {}, after the process that "
        "started this one: where that is not the same for all, set {} to one text of your "
        "own",
        env.starter,
        env.store,
        kJobVariable);
  }
  if (!env.secret.empty()) {
    if (!why.empty()) why += "; ";
    why += fmt::format(
        "the place also depends on the secret in {}: where the ranks do not all see that "
        "folder, set {} to one secret text",
        written_path(env.secret),
        kTokenVariable);
  }
  return why.empty() ? error : Error(error).add(ErrorFrame::Kind::advice, why);
}

}  // namespace tessera

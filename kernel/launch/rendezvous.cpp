#include "kernel/launch/rendezvous.hpp"

#include <atomic>
#include <exception>

#include "tessera/error.hpp"
#include "tessera/log.hpp"

namespace tessera {

namespace {

using namespace std::chrono_literals;

// The other ranks end right after this one; what takes longer is no part of a run.
constexpr auto kLeaving = 30s;
constexpr std::string_view kCount = "launch/left";
constexpr std::string_view kAllLeft = "launch/all left";

}  // namespace

Rendezvous::Rendezvous(const RankEnvironment& env, std::chrono::milliseconds timeout)
    : world_(env.world), exceptions_(std::uncaught_exceptions()) {
  if (!env.own && env.rank == 0) {
    server_ = std::make_unique<StoreServer>(env.store, env.token, env.world);
  }
  store_ = std::make_unique<SocketStore>(env.store, env.token, env.rank, env.world, timeout);
}

Rendezvous::~Rendezvous() {
  if (abandoned_ || std::uncaught_exceptions() > exceptions_) {
    // Its connection closes with the process, after this rank's report: the server takes that for a
    // death. Kept where leak checkers find it.
    static std::atomic<SocketStore*> open_to_the_end;
    open_to_the_end = store_.release();
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

}  // namespace tessera

#pragma once
#include <chrono>
#include <memory>

#include "kernel/comm/socket_store.hpp"
#include "kernel/launch/environment.hpp"
#include "tessera/error.hpp"

namespace tessera {

/// This rank's place in the run's store. Under a starter that is not ours rank 0 also serves it,
/// and so leaves last.
class Rendezvous {
 public:
  /// Waits up to `timeout` for the store to be there.
  Rendezvous(const RankEnvironment& env, std::chrono::milliseconds timeout);
  /// Says goodbye; while an exception passes, it does not: then the peers see this rank's death.
  /// Rank 0 gives them some seconds to learn of it from the store that it serves.
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  Store& store() { return *store_; }
  /// Says no goodbye: for failures that are caught while this object lives.
  void abandon() noexcept { abandoned_ = true; }

 private:
  void leave();
  i64 world_;
  bool abandoned_ = false;
  int exceptions_;
  std::unique_ptr<StoreServer> server_;
  std::unique_ptr<SocketStore> store_;
};

/// Adds to an error of waiting for ranks what to do where each may wait at a place of its own.
Error explain_absence(const RankEnvironment& env, const Error& error);

}  // namespace tessera

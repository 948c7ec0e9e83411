#pragma once
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "kernel/comm/store_session.hpp"
#include "kernel/comm/store_wire.hpp"
#include "tessera/device/communicator.hpp"
#include "tessera/device/store_route.hpp"

namespace tessera {

/// Serves a store to processes, from a thread of its own. A process that connects proves the token
/// (StoreHandshake), the world size and a rank that nobody else has; others are told why and
/// dropped, and the run goes on. On a unix socket other users are dropped at once. A rank whose
/// connection closes without goodbye has died: from then on waits for keys that are not there end
/// with its name.
class StoreServer {
 public:
  /// `address`: "unix:@name" (abstract socket), "tcp:host:port"; without a host loopback, port 0
  /// is chosen by the system. An empty token is read from TESSERA_RUN_TOKEN.
  StoreServer(const std::string& address, std::string token, i64 world);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  /// What clients connect to, with the port that was chosen.
  const std::string& address() const;
  /// "rank 3 died: …"; empty while none has.
  std::string first_death() const;
  /// For `rank`, which serves this store and has failed: counts it as dead, so that the others end
  /// too, and returns when all of them have hung up, or after `limit`. Without that, a late rank
  /// would find no store, and blame it.
  void outlast_others(i64 rank, std::chrono::milliseconds limit);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A rank's side of a StoreServer, which proves the token too: it sends nothing to another user's
/// unix socket, or to a server that does not know the token. Thread-safe: calls that wait do not
/// hold up others. The destructor says goodbye, except while an exception passes: then the rank
/// counts as dead.
class SocketStore : public Store, public RoutedStore {
 public:
  /// Waits until the server is there. Throws Error when it is not within `timeout`, or refuses.
  SocketStore(const std::string& address,
              std::string token,
              i64 rank,
              i64 world,
              std::chrono::milliseconds timeout);
  ~SocketStore() override;

  void set(std::string_view key, std::string_view value) override;
  std::string get(std::string_view key, std::chrono::milliseconds timeout) override;
  i64 add(std::string_view key, i64 amount) override;
  StoreRoute route() const override;
  void hang_up() noexcept override;
  /// "rank 3 died: …"; empty while none has.
  std::string first_death();

 private:
  struct Line {
    Socket socket;
    StoreSession session;
  };
  Line connect(bool primary, std::chrono::milliseconds timeout);
  Line shake_hands(Socket socket, bool primary) const;
  std::string call(const WireMessage& request);
  // `timeout`: of the server's wait. `stood`: how long this process stood still meanwhile.
  WireMessage exchange(const WireMessage& request,
                       std::chrono::milliseconds timeout,
                       std::chrono::steady_clock::duration& stood);
  std::optional<Line> take_idle();
  void check_hung_up();

  StoreAddress address_;
  std::string token_;
  i64 rank_, world_;
  int exceptions_;
  std::mutex mutex_;
  std::vector<Line> idle_;
  std::vector<int> busy_;  // descriptors of calls under way
  bool hung_up_ = false;
  Line primary_;  // closes with this rank; idle otherwise; made with all of the above
};

}  // namespace tessera

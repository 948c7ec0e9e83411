#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <tessera/comm.hpp>

#include "address.hpp"
#include "connect.hpp"

namespace tessera::gloo_tcp {

using Clock = std::chrono::steady_clock;

/// Which rank's failure ended communication, and its reason.
struct Failure {
  i64 rank;  ///< -1: none of them, such as the store
  std::string reason;
  std::string text() const;
};

/// Thrown by whatever sends, receives or waits after a failure. No Error yet: who catches it knows
/// group and operation.
struct Stopped {
  Failure failure;
};

/// Bytes on their way to or from one rank. Not to be destroyed before it is complete, unless
/// communication has ended.
class Delivery {
 public:
  i64 rank() const { return rank_; }

 private:
  friend class Transport;
  std::unique_ptr<Buffer> buffer_;
  i64 rank_ = -1;
  bool sends_ = false;
};

/// Messages between this rank and all others through Gloo's TCP transport, and the end of it all:
/// Gloo cannot go on after any error, so the first failure closes every connection, is told to all
/// peers through the store, and stays.
class Transport {
 public:
  Transport(const CommunicatorArguments& arguments, const BindAddress& configured);
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  /// Start a delivery and return at once. Sender and receiver name the same slot, which is used
  /// once; what is sent must fit into what is received, or Gloo ends the receiving process.
  Delivery send(i64 rank, u64 slot, const void* data, i64 bytes);
  Delivery receive(i64 rank, u64 slot, void* data, i64 bytes);
  /// Throws Stopped when it will never complete. There is no deadline: that is Lane's.
  void wait(Delivery& delivery);

  /// The first one counts. Ends all waits, tells peers (unless `told`), closes all connections.
  void fail(const Failure& failure, bool told = false) noexcept;
  /// After a failure: waits until no lane of this rank is inside a task, so that tensors may go.
  void quiesce() noexcept;
  void enter();           ///< a lane starts a task; throws Stopped after a failure
  void leave() noexcept;  ///< and has ended it

  const CommunicatorArguments& arguments() const { return arguments_; }
  /// When a delivery of this rank completed last.
  Clock::time_point moved() const { return Clock::time_point(Clock::duration(moved_.load())); }

 private:
  Delivery start(i64 rank, void* data, i64 bytes, bool sends);
  Failure cause(std::unique_lock<std::mutex>& lock, i64 rank);
  void listen_to_store();
  void watch_connections();
  void stop_waits(i64 rank);

  CommunicatorArguments arguments_;
  std::string prefix_;
  Mesh mesh_;
  std::vector<Delivery> sentinels_;  // receives that only end with their connection
  std::atomic<Clock::rep> moved_{0};

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Failure> failure_;
  bool closed_ = false;             // all connections, after a failure
  std::vector<char> lost_;          // connections that closed, by rank
  std::vector<Delivery*> waiting_;  // deliveries that some thread waits for
  int busy_ = 0;                    // lanes inside a task
  bool ending_ = false;
  std::thread listener_, watcher_;
};

}  // namespace tessera::gloo_tcp

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

#include <tessera/device/communicator.hpp>
#include <tessera/device/failure_mail.hpp>
#include <tessera/device/scratch_pool.hpp>
#include <tessera/device/stood_still.hpp>
#include <tessera/error.hpp>

#include "address.hpp"
#include "poster.hpp"

namespace tessera::gloo_tcp {

using Clock = std::chrono::steady_clock;

/// Thrown by whatever sends, receives or waits after a failure. No Error yet: who catches it knows
/// group and operation.
struct Stopped {
  RankFailure failure;
};

class Delivery;

/// What a rank says in the store about a delivery that takes long, and where its peer does: about
/// one number both must say the same.
struct Statement {
  std::string key, peer_key;
  u64 number;
  std::string text;
};

/// A task that waits for a delivery.
class Waiter {
 public:
  virtual ~Waiter() = default;
  virtual Statement statement(const Delivery& delivery) const = 0;
  /// Whom it waits for and why, for a timeout.
  virtual std::string waiting_for() const = 0;
};

/// Bytes on their way to or from one rank. Not to be destroyed before it is complete, unless
/// communication has ended.
class Delivery {
 public:
  i64 rank() const { return rank_; }
  bool sends() const { return sends_; }

 private:
  friend class Transport;
  std::shared_ptr<Buffer> buffer_;
  i64 rank_ = -1;
  bool sends_ = false;
  // While somebody waits for it, under Transport's lock:
  const Waiter* waiter_ = nullptr;
  bool limited_ = false, timed_out_ = false;
  Clock::time_point since_;
  std::optional<Clock::time_point> lost_since_;  // when its connection was found closed
  std::chrono::milliseconds ask_after_{500};     // doubled each time
};

/// Messages between this rank and all others through Gloo's TCP transport, and their end: Gloo
/// cannot go on after any error, so the first failure closes every connection, is told to all peers
/// through the store, and stays.
class Transport {
 public:
  Transport(const CommunicatorArguments& arguments, const BindAddress& configured);
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  /// Start a delivery and return. Sender and receiver name the same slot, which is used once and
  /// stands for the size too, because Gloo ends a process that receives more than it expects. When
  /// the slots of two ranks differ both wait, until each reads the other's statement.
  Delivery send(i64 rank, u64 slot, const void* data, i64 bytes);
  Delivery receive(i64 rank, u64 slot, void* data, i64 bytes);
  /// Throws Stopped when it will never complete; where it is `limited`, Error when nothing of this
  /// rank has moved for as long as a collective may take.
  void wait(Delivery& delivery, const Waiter& waiter, bool limited);

  /// The first call counts. Ends all waits, tells peers (unless `told`), closes all connections.
  void fail(const RankFailure& failure, bool told = false) noexcept;
  /// Call after a failure: waits until no thread of this rank is in a task, so that tensors may go.
  void quiesce() noexcept;
  void enter();           ///< a task starts; throws Stopped after a failure
  void leave() noexcept;  ///< and has ended it

  const CommunicatorArguments& arguments() const { return arguments_; }
  /// This rank's number in the run.
  i64 number() const { return arguments_.number(arguments_.rank); }
  ScratchPool& scratch() { return scratch_; }
  /// When a delivery of this rank completed last.
  Clock::time_point moved() const { return Clock::time_point(Clock::duration(moved_.load())); }

 private:
  Delivery start(i64 rank, u64 slot, void* data, i64 bytes, bool sends);
  void start_now(const Request& request);
  RankFailure cause(std::unique_lock<std::mutex>& lock, const Delivery& delivery);
  void end_threads() noexcept;
  void heard(const RankFailure& failure);
  void watch();
  void speak();
  bool begin_failure(const RankFailure& failure, bool told);
  void tell_peers(const RankFailure& failure) noexcept;
  void close_all() noexcept;
  void look_at_connections();
  void look_at_clock();
  void ask_peers(std::unique_lock<std::mutex>& lock);
  void lose(i64 rank);
  static void stop_wait(Delivery& delivery);

  CommunicatorArguments arguments_;
  std::unique_ptr<FailureMail> mail_;  // until the threads have ended
  ScratchPool scratch_;
  Mesh mesh_;
  std::vector<Delivery> sentinels_;  // receives that only end with their connection
  std::atomic<Clock::rep> moved_{0};

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<RankFailure> failure_;
  bool told_ = false;               // peers know of it
  bool closed_ = false;             // all connections, after a failure
  std::vector<char> lost_;          // connections that closed, by rank
  std::vector<Delivery*> waiting_;  // deliveries that some thread waits for
  StoodStill stood_still_;          // between looks at their clocks
  int busy_ = 0;                    // threads inside a task
  bool starting_ = false;           // Gloo's thread is inside start_now
  bool ending_ = false;
  std::unique_ptr<Poster> poster_;
  std::thread watcher_, speaker_;
};

}  // namespace tessera::gloo_tcp

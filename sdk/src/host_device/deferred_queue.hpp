#pragma once
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "sdk/src/host_device/host_event.hpp"
#include "sdk/src/host_device/host_task.hpp"

namespace tessera {

/// The streams of a device in the test mode `deferred`. Tasks wait in queues and run in a random
/// order that their streams and events allow: mostly as late as a waiting host lets them, or with
/// other streams far ahead or far behind. The same seed and calls give the same order. Before a
/// task that waits for other ranks everything that was given earlier runs: those ranks may need it.
///
/// The first exception of a task drops everything queued, and is thrown by the next drain or query.
class DeferredQueue {
 public:
  DeferredQueue(u64 seed, int streams);

  void push(Stream& stream, std::shared_ptr<const HostTask> task);
  void record(Stream& stream, std::shared_ptr<HostEvent> event);
  void wait(Stream& stream, std::shared_ptr<HostEvent> event);
  /// Called between tasks while the host waits; throws to end the wait.
  using Check = std::function<void()>;
  /// Runs what `stream` holds, and some of the others.
  void drain(Stream& stream, const Check& check);
  void drain_all();
  /// Runs what comes before the event, and some of the rest.
  void drain_to(const HostEvent& event, const Check& check);
  /// Has the event been reached? Runs a few tasks, so that a host that asks again gets on.
  bool query(const HostEvent& event);

 private:
  struct Entry {
    Stream* stream = nullptr;
    std::shared_ptr<const HostTask> task;
    std::shared_ptr<HostEvent> record, wait;
    std::shared_ptr<void> holds;  // until the task has run
    u64 number = 0;               // in the order in which they were given
  };
  using Queue = std::deque<Entry>;
  /// Which stream goes first where several could.
  enum class Order { target_first, target_last, any };

  void enqueue(Entry entry);
  Queue* pick(const Queue* target, Order order);
  bool step(const Queue* target, Order order);
  void run_front(Queue& queue);
  void run_before(u64 number);
  void run_ahead(u64 steps);
  void run_until_dry(const Queue& target, const Check& check);
  template <class Done>
  void run_until(const Queue& target, const Check& check, Done done);
  void drop();
  void rethrow();
  u64 random(u64 bound);

  u64 seed_, drawn_ = 0, given_ = 0;
  std::vector<Queue> queues_;
  std::size_t queued_ = 0;
  bool running_ = false;
  std::exception_ptr error_;
};

}  // namespace tessera

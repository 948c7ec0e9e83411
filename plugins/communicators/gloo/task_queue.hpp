#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include <tessera/device/host_comm.hpp>

#include "transport.hpp"

namespace tessera::gloo_tcp {

/// The rest of a collective of this rank, or of its dealings with one peer, after its first
/// deliveries have been started.
class Task : public Waiter {
 public:
  explicit Task(const HostGroup::Posted& posted) : ticket(posted.ticket), place(posted.place) {}
  /// Blocks until done. Throws what Transport::wait throws. `limited`: for Transport::wait.
  virtual void run(bool limited) = 0;
  /// Do others wait for something that this rank can send only after it has received? Then it is
  /// done by the queue's thread; the rest waits until the rank itself waits for it.
  virtual bool passes_on() const = 0;

  const HostGroup::Ticket ticket;
  const CollectivePlace place;
};

/// Runs what starts deliveries or waits for them, on the thread of the caller. Returns the error
/// that has ended communication, if one has.
std::optional<Error> attempt(Transport& transport,
                             const CollectivePlace& place,
                             const std::function<void()>& body);

/// Runs tasks one after the other: on a thread of its own, so that they overlap the rank's work, or
/// on the rank's thread when it waits before a task has begun, which saves two thread switches.
class TaskQueue {
 public:
  explicit TaskQueue(std::shared_ptr<Transport> transport) : transport_(std::move(transport)) {}
  /// No task may be running.
  ~TaskQueue();
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  void add(std::unique_ptr<Task> task);
  /// Waits until the task with this ticket is done; returns at once where it is not in the queue
  /// any more. Throws Error when one failed, or when nothing of this rank has moved for the time
  /// that a collective may take.
  void wait(HostGroup::Ticket ticket);
  bool idle();

 private:
  void run();
  void run_front(std::unique_lock<std::mutex>& lock, bool limited);
  bool holds(HostGroup::Ticket ticket) const;

  std::shared_ptr<Transport> transport_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Task>> tasks_;  // the first one runs
  int to_pass_on_ = 0;                       // among them
  std::optional<Error> error_;
  bool running_ = false, stop_ = false;
  std::thread thread_;  // started when it is needed
};

}  // namespace tessera::gloo_tcp

#pragma once
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "transport.hpp"

namespace tessera::gloo_tcp {

/// Memory that the tasks of a lane use in turn.
class Scratch {
 public:
  /// At least this many bytes, not set; invalidates what was given before.
  std::byte* reserve(i64 bytes);

 private:
  std::unique_ptr<std::byte[]> memory_;
  i64 bytes_ = 0;
};

/// One collective of this rank, or its dealings with one peer, after its sends have been started.
class Task {
 public:
  virtual ~Task() = default;
  /// Blocks until done. Throws Stopped, or Error when members disagree.
  virtual void run(Scratch& scratch) = 0;
  /// "group tp[0,1]: all_reduce "x" #4", for errors.
  virtual std::string title() const = 0;
  /// Whom it waits for and why, for a timeout; called while it runs.
  virtual std::string waiting_for() const = 0;

  u64 ticket = 0;
};

/// Runs tasks one after the other on a thread of its own, so that they overlap the rank's work.
class Lane {
 public:
  explicit Lane(std::shared_ptr<Transport> transport);
  /// Ends the rank's communication when tasks are under way.
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  void add(std::unique_ptr<Task> task);
  /// Until all tasks up to this ticket are done. Throws Error when one failed, or when nothing of
  /// this rank has moved for the time that a collective may take.
  void wait(u64 ticket);
  bool idle();

 private:
  void run();
  std::string run_front(Task& task);

  std::shared_ptr<Transport> transport_;
  Scratch scratch_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Task>> tasks_;  // the first one runs
  std::string error_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tessera::gloo_tcp

#pragma once
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime.hpp"

namespace tessera::cuda {

class HostTask;

/// What host tasks leave to the rank's thread: their first failure, and themselves, since they may
/// be the last to hold tensors and events, which only that thread may give back. CUDA's threads
/// write it.
class TasksDone {
 public:
  void keep(std::exception_ptr failure);
  void keep(std::unique_ptr<HostTask> task);
  /// Drops the tasks that have run.
  void clear();
  /// The same, and throws the failure, once.
  void rethrow();

 private:
  std::mutex mutex_;
  std::exception_ptr failure_;
  std::vector<std::unique_ptr<HostTask>> tasks_;
};

/// A function that a stream calls in its turn, on a thread of CUDA's. It may not call CUDA.
class HostTask {
 public:
  HostTask(std::string name, std::function<void()> run, std::shared_ptr<TasksDone> done);
  /// Enqueues the task. Once it has run, TasksDone has it.
  static void launch(cudaStream_t stream, std::unique_ptr<HostTask> task);
  /// Records it in a capture: the task outlives all replays.
  static void record(cudaStream_t stream, HostTask& task);

 private:
  static void run_once(void* task);
  static void run_again(void* task);
  void run() noexcept;
  void keep_failure() noexcept;  // in a catch block

  std::string name_;
  std::function<void()> run_;
  std::shared_ptr<TasksDone> done_;
};

}  // namespace tessera::cuda

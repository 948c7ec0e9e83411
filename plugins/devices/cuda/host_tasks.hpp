#pragma once
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "runtime.hpp"

namespace tessera::cuda {

/// The first failure of host tasks, until the rank's thread throws it. CUDA's threads write it.
class TaskFailure {
 public:
  void keep(std::exception_ptr failure);
  /// Throws it, once.
  void rethrow();

 private:
  std::mutex mutex_;
  std::exception_ptr failure_;
};

/// A function that a stream calls in its turn, on a thread of CUDA's. It may not call CUDA.
class HostTask {
 public:
  HostTask(std::string name, std::function<void()> run, std::shared_ptr<TaskFailure> failure);
  /// Enqueues the task, which lives until it has run.
  static void launch(cudaStream_t stream, std::unique_ptr<HostTask> task);
  /// Records it in a capture: the task outlives all replays.
  static void record(cudaStream_t stream, HostTask& task);

 private:
  static void run_once(void* task);
  static void run_again(void* task);
  void run() noexcept;

  std::string name_;
  std::function<void()> run_;
  std::shared_ptr<TaskFailure> failure_;
};

}  // namespace tessera::cuda

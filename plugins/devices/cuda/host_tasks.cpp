#include "host_tasks.hpp"

#include <fmt/format.h>

#include <utility>

#include "tessera/error.hpp"

namespace tessera::cuda {

void TasksDone::keep(std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(failure);
}

void TasksDone::keep(std::unique_ptr<HostTask> task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
}

void TasksDone::clear() {
  std::vector<std::unique_ptr<HostTask>> tasks;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  tasks.swap(tasks_);
}

void TasksDone::rethrow() {
  clear();
  std::exception_ptr failure;
  {
    const std::lock_guard lock(mutex_);
    failure = std::exchange(failure_, nullptr);
  }
  if (failure) std::rethrow_exception(failure);
}

HostTask::HostTask(std::string name, std::function<void()> run, std::shared_ptr<TasksDone> done)
    : name_(std::move(name)), run_(std::move(run)), done_(std::move(done)) {}

void HostTask::launch(cudaStream_t stream, std::unique_ptr<HostTask> task) {
  check(cudaLaunchHostFunc(stream, &run_once, task.get()), "cudaLaunchHostFunc");
  (void)task.release();  // run_once has it
}

void HostTask::record(cudaStream_t stream, HostTask& task) {
  check(cudaLaunchHostFunc(stream, &run_again, &task), "cudaLaunchHostFunc");
}

void HostTask::run_once(void* task) {
  std::unique_ptr<HostTask> own(static_cast<HostTask*>(task));
  own->run();
  const std::shared_ptr<TasksDone> done = own->done_;
  done->keep(std::move(own));
}
void HostTask::run_again(void* task) { static_cast<HostTask*>(task)->run(); }

void HostTask::run() noexcept {
  try {
    run_();
  } catch (...) {
    keep_failure();
  }
}

void HostTask::keep_failure() noexcept try {
  rethrow_with(ErrorFrame::Kind::operation, fmt::format("host task \"{}\"", name_));
} catch (...) {
  done_->keep(std::current_exception());
}

}  // namespace tessera::cuda

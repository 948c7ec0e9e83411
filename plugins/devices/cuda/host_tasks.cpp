#include "host_tasks.hpp"

#include <fmt/format.h>

#include <utility>

#include "tessera/error.hpp"

namespace tessera::cuda {

void TaskFailure::keep(std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(failure);
}

void TaskFailure::rethrow() {
  std::exception_ptr failure;
  {
    const std::lock_guard lock(mutex_);
    failure = std::exchange(failure_, nullptr);
  }
  if (failure) std::rethrow_exception(failure);
}

HostTask::HostTask(std::string name,
                   std::function<void()> run,
                   std::shared_ptr<TaskFailure> failure)
    : name_(std::move(name)), run_(std::move(run)), failure_(std::move(failure)) {}

void HostTask::launch(cudaStream_t stream, std::unique_ptr<HostTask> task) {
  check(cudaLaunchHostFunc(stream, &run_once, task.get()), "cudaLaunchHostFunc");
  (void)task.release();  // run_once has it
}

void HostTask::record(cudaStream_t stream, HostTask& task) {
  check(cudaLaunchHostFunc(stream, &run_again, &task), "cudaLaunchHostFunc");
}

void HostTask::run_once(void* task) {
  std::unique_ptr<HostTask>(static_cast<HostTask*>(task))->run();
}
void HostTask::run_again(void* task) { static_cast<HostTask*>(task)->run(); }

void HostTask::run() noexcept {
  try {
    run_();
  } catch (const Error& error) {
    failure_->keep(std::make_exception_ptr(
        Error(fmt::format("host task \"{}\": {}", name_, error.what()), error.exit_code())));
  } catch (const std::exception& error) {
    failure_->keep(
        std::make_exception_ptr(Error(fmt::format("host task \"{}\": {}", name_, error.what()))));
  } catch (...) {
    failure_->keep(std::make_exception_ptr(
        Error(fmt::format("host task \"{}\" threw what is no std::exception", name_))));
  }
}

}  // namespace tessera::cuda

#include "kernel/checkpoint/background_work.hpp"

#include <utility>

namespace tessera {

BackgroundWork::~BackgroundWork() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

void BackgroundWork::start(std::function<void(std::stop_token)> work) {
  ended_ = false;
  error_ = nullptr;
  thread_ = std::jthread([this, work = std::move(work)](const std::stop_token& stop) {
    std::exception_ptr error;
    try {
      work(stop);
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    error_ = error;
    ended_ = true;
  });
}

bool BackgroundWork::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

void BackgroundWork::wait() {
  thread_.join();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

}  // namespace tessera

#pragma once
#include <exception>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace tessera {

/// Work on a thread of its own, one at a time. Used on one thread.
class BackgroundWork {
 public:
  BackgroundWork() = default;
  /// Tells the work to stop and waits for its end.
  ~BackgroundWork();
  BackgroundWork(const BackgroundWork&) = delete;
  BackgroundWork& operator=(const BackgroundWork&) = delete;

  /// Nothing is under way.
  void start(std::function<void(std::stop_token)> work);
  bool under_way() const { return thread_.joinable(); }
  /// Has what is under way ended? Never blocks.
  bool ended() const;
  /// Waits for the end of what is under way and throws what it threw.
  void wait();

 private:
  mutable std::mutex mutex_;
  bool ended_ = false;
  std::exception_ptr error_;
  std::jthread thread_;  // the last: it uses all of the above
};

}  // namespace tessera

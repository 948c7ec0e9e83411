#pragma once
#include <cstddef>
#include <functional>
#include <memory>

namespace tessera::cuda::emulated {

/// A stack of its own on which a function runs, in turns with whoever resumes it, on one thread.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Gives the fiber, which is not running, its next function. It runs when resumed.
  void start(const std::function<void()>& body) { body_ = &body; }
  /// Goes on with the fiber until it suspends or its function returns. True: it has returned.
  bool resume();
  /// Called on the fiber: goes back to whoever resumed it.
  void suspend();

 private:
  struct Switch;
  static void enter();
  void run();

  const std::function<void()>* body_ = nullptr;
  std::byte* stack_ = nullptr;
  std::unique_ptr<Switch> switch_;
};

}  // namespace tessera::cuda::emulated

#pragma once
#include <cstddef>
#include <functional>
#include <memory>

namespace tessera::cuda::emulated {

/// A stack of its own on which a function runs, in turns with others and with who resumed the first
/// of them, the outside; all on one thread.
class Fiber {
 public:
  /// What a fiber runs; it returns who goes on after it, nullptr being the outside.
  using Body = std::function<Fiber*()>;

  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Gives the fiber, which is not running, its next function. It runs when its turn comes.
  void start(const Body& body) { body_ = &body; }
  /// Called outside: goes on with the fiber, until one of them goes back to the outside.
  void resume();
  /// Called on the fiber: `next`, another one or the outside, goes on instead.
  void give_way(Fiber* next);

 private:
  struct Place;
  static void enter();
  [[noreturn]] void run();
  static Place& outside();
  static void go(Place& from, Place& to);

  const Body* body_ = nullptr;
  std::byte* stack_ = nullptr;
  std::unique_ptr<Place> place_;
};

}  // namespace tessera::cuda::emulated

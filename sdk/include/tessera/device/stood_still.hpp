#pragma once
#include <chrono>
#include <utility>

namespace tessera {

/// How long a process stood still between two looks at the clock, as in a suspended job. It did not
/// wait for its peers meanwhile, so the deadline of a wait moves by that:
///
///     StoodStill stood_still;
///     while (!ready_by(now() + kLook)) {
///       deadline += stood_still.look(kLook);
///       if (now() >= deadline) throw …;
///     }
///
/// A wait looks at the clock once a second or more often. For one thread.
class StoodStill {
 public:
  using Clock = std::chrono::steady_clock;
  explicit StoodStill(Clock::time_point now = Clock::now()) : looked_(now) {}
  /// Time since the last look, or since this was made, beyond the `planned` time of a wait between;
  /// 0 where that is a second or less: then the thread was only late.
  Clock::duration look(Clock::duration planned = {}, Clock::time_point now = Clock::now()) {
    const Clock::duration passed = now - std::exchange(looked_, now) - planned;
    return passed > std::chrono::seconds(1) ? passed : Clock::duration(0);
  }

 private:
  Clock::time_point looked_;
};

}  // namespace tessera

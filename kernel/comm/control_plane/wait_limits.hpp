#pragma once
#include <chrono>
#include <optional>

namespace tessera {

/// How long ranks wait for each other.
struct WaitLimits {
  template <class Rep, class Period>  // NOLINTNEXTLINE(google-explicit-constructor): a time is one
  WaitLimits(std::chrono::duration<Rep, Period> time) : timeout(time) {}
  WaitLimits(std::chrono::milliseconds time, std::chrono::milliseconds without_pulse)
      : timeout(time), silence(without_pulse) {}
  std::chrono::milliseconds timeout;
  /// Where ranks have pulses (pulse.hpp), a rank without a beat for so long is waited for no
  /// longer.
  std::optional<std::chrono::milliseconds> silence;
};

}  // namespace tessera

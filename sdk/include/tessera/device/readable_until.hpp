#pragma once
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "tessera/types.hpp"

namespace tessera {

/// Waits until `fd`, a socket or a pipe, is ready for `events` of poll(), which an end or an error
/// is too. False when `deadline` passed first. Signals do not end the wait.
inline bool ready_until(int fd, short events, std::chrono::steady_clock::time_point deadline) {
  constexpr i64 kLongest = 3'600'000;  // milliseconds; a deadline may be years away
  while (true) {
    const auto now = std::chrono::steady_clock::now();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now);
    pollfd wait{fd, events, 0};
    const int ready = poll(&wait, 1, static_cast<int>(std::clamp<i64>(left.count(), 0, kLongest)));
    if (ready > 0 || (ready < 0 && errno != EINTR)) return true;
    if (ready == 0 && now >= deadline) return false;
  }
}

/// The same until there is something to read: bytes, the end, or an error that reading reports.
inline bool readable_until(int fd, std::chrono::steady_clock::time_point deadline) {
  return ready_until(fd, POLLIN, deadline);
}

}  // namespace tessera

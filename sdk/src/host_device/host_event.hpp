#pragma once
#include <chrono>
#include <memory>
#include <vector>

#include "tessera/device.hpp"

namespace tessera {

/// What an Event of a host device names.
struct HostEvent {
  /// Has the stream got there? When, for events that keep the time.
  bool done = false;
  bool timed = false;
  std::chrono::steady_clock::time_point time;
  /// Index of the stream that it was recorded on.
  int stream = 0;
  /// The capture that it was recorded in; 0 outside.
  u64 capture = 0;
  /// Within the capture: its number, and how far each stream is when it is reached.
  int number = 0;
  std::vector<i64> clock;

  void reach() {
    if (timed) time = std::chrono::steady_clock::now();
    done = true;
  }
};

inline std::shared_ptr<HostEvent> host_event(const Event& event) {
  return std::static_pointer_cast<HostEvent>(event.state);
}

}  // namespace tessera

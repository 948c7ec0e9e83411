#pragma once
#include <chrono>
#include <memory>

#include "tessera/device/capture_rules.hpp"
#include "tessera/device/device.hpp"

namespace tessera {

/// What an Event of a host device names.
struct HostEvent {
  /// Has the stream got there? When, for events that keep the time.
  bool done = false;
  bool timed = false;
  std::chrono::steady_clock::time_point time;
  /// Index of the stream that it was recorded on.
  int stream = 0;
  /// The point of the capture that it was recorded in, and its number there.
  CapturePoint point;
  int number = 0;

  void reach() {
    if (timed) time = std::chrono::steady_clock::now();
    done = true;
  }
};

inline std::shared_ptr<HostEvent> host_event(const Event& event) {
  return std::static_pointer_cast<HostEvent>(event.state);
}

}  // namespace tessera

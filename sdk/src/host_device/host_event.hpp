#pragma once
#include <memory>
#include <vector>

#include "tessera/device.hpp"

namespace tessera {

/// What an Event of a host device names.
struct HostEvent {
  /// Deferred mode: has the stream got there?
  bool done = false;
  /// The capture that it was recorded in; 0 outside.
  u64 capture = 0;
  /// Within the capture: its number, and how far each stream is when it is reached.
  int number = 0;
  std::vector<i64> clock;
};

inline std::shared_ptr<HostEvent> host_event(const Event& event) {
  return std::static_pointer_cast<HostEvent>(event.state);
}

}  // namespace tessera

#pragma once
#include <chrono>
#include <map>
#include <string>

#include "tessera/device/communicator.hpp"

namespace tessera {

/// Checks now and then that a rank that is waited for lives. Its work may take minutes, as writing
/// a checkpoint does; its pulse beats all the while (pulse.hpp).
class PulseCheck {
 public:
  /// `silence`: the longest time without a beat. At least two seconds, as hosts may be busy.
  PulseCheck(Store& store, std::chrono::milliseconds silence);
  std::chrono::milliseconds silence() const { return silence_; }
  /// Throws Error with ErrorKind::peer_silent where the rank has a pulse that did not beat for so
  /// long; and the store's own errors. Call it more than twice in that time: a longer time between
  /// two calls does not count.
  void require_alive(i64 rank);

 private:
  using Clock = std::chrono::steady_clock;
  struct Seen {
    std::string beat;
    Clock::time_point since;
  };
  Store& store_;
  const std::chrono::milliseconds silence_;
  std::map<i64, Seen> seen_;
  Clock::time_point asked_ = Clock::now();
};

}  // namespace tessera

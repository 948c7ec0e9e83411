#pragma once
#include <chrono>
#include <map>
#include <string>

#include "tessera/device/communicator.hpp"

namespace tessera {

/// Asks now and then whether a rank that is waited for lives. What it does may take minutes, as
/// writing a checkpoint does; its pulse beats all the while (pulse.hpp).
class PulseCheck {
 public:
  /// `silence`: for how long a pulse may not beat. Two seconds at least, as hosts may be busy.
  PulseCheck(Store& store, std::chrono::milliseconds silence);
  std::chrono::milliseconds silence() const { return silence_; }
  /// Throws Error with ErrorKind::peer_silent where the rank has a pulse, and it beat at no call
  /// for so long; and the store's own errors. To be called more often than twice in the silence:
  /// what is longer between two calls does not count.
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

#pragma once
#include <chrono>
#include <optional>
#include <string>

#include "tessera/comm.hpp"

namespace tessera {

/// Asks a store for a text again and again, and notices when the store itself is silent: a rank may
/// serve it that is stopped, or on a host that is gone.
class AskStore {
 public:
  /// `silence`: after which a store that leaves call after call unanswered is given up; ten seconds
  /// where ranks have no pulses (Patience).
  AskStore(Store& store, std::optional<std::chrono::milliseconds> silence)
      : store_(store), silence_(silence.value_or(std::chrono::seconds(10))) {}
  /// The text, or nothing where nobody has set it within `wait`. Throws what the store does where a
  /// rank has failed or the store is gone, and with ErrorKind::peer_silent where it is silent.
  std::optional<std::string> get(const std::string& key, std::chrono::milliseconds wait);

 private:
  using Clock = std::chrono::steady_clock;
  Store& store_;
  const std::chrono::milliseconds silence_;
  Clock::time_point answered_ = Clock::now();  // when the store did last
  int unanswered_ = 0;  // one may be of a time in which this process stood still itself
};

}  // namespace tessera

#pragma once
#include <chrono>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "kernel/comm/control_plane/pulse_check.hpp"
#include "kernel/comm/control_plane/wait_limits.hpp"
#include "tessera/device/communicator.hpp"
#include "tessera/device/stood_still.hpp"

namespace tessera {

/// Waits for what ranks write to a store: the one place that knows when to give up. All calls of
/// one wait share its time, which does not run while this process stands still (a suspended job).
/// A rank without a pulse, a store that does not answer (a rank may serve it that is stopped, or on
/// a host that is gone) and a run that ends are Errors long before the time is over.
class RankWait {
 public:
  enum class Deadline : bool { none, timeout };

  /// `stop`: for a thread in the background. It waits outside of the store, since a call to it
  /// would outlast a run that ends, and gives up with an Error once it is told to stop.
  RankWait(Store& store,
           const WaitLimits& limits,
           std::optional<std::stop_token> stop = {},
           Deadline deadline = Deadline::timeout);
  /// Returns the text at `key`, which `rank` writes. Where it does not come, throws an Error of
  /// kind peer_silent that names `what` and the time waited.
  std::string get(const std::string& key, i64 rank, std::string_view what);
  /// Returns the text, or nothing where nobody has written it within `wait`. Throws the store's
  /// error where a rank has failed or the store is gone, and peer_silent where it is silent.
  std::optional<std::string> look(const std::string& key, std::chrono::milliseconds wait);
  /// Sleeps; ends early with an Error where it is told to stop.
  void pause(std::chrono::milliseconds time) const { pause(time, stop_); }
  static void pause(std::chrono::milliseconds time, const std::optional<std::stop_token>& stop);

 private:
  using Clock = std::chrono::steady_clock;
  std::string wait_for(const std::string& key, i64 rank);
  std::chrono::milliseconds slice() const;

  Store& store_;
  const WaitLimits limits_;
  const std::optional<std::stop_token> stop_;
  const Deadline deadline_;
  std::optional<PulseCheck> pulse_;
  StoodStill stood_still_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point answered_ = begin_;  // when the store last answered
  int unanswered_ = 0;                   // one may be due to this process standing still
};

}  // namespace tessera

#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "sdk/src/shared/progress.hpp"
#include "tessera/device/communicator.hpp"
#include "tessera/error.hpp"

namespace tessera {

/// The key of a rank's pulse in the store: a text that changes at every beat.
std::string beat_key(i64 rank);
/// Whether a rank has a pulse, and so has started. Throws the store's own errors.
bool has_pulse(Store& store, i64 rank);

/// The text for a store that leaves calls unanswered.
inline constexpr std::string_view kStoreIsSilent =
    "the process that serves the store (rank 0 or the launcher) does not answer: it is stopped, or "
    "out of reach";

/// Signs of life of one rank, in the store. When ranks wait in vain, the one that waited longest
/// blames its neighbour, which may itself be waiting. So the first rank whose timer fires looks at
/// all pulses, and names ranks without a pulse, which did not start, and whose pulse stopped; where
/// there are none, the rank that neither reports a failure nor moves.
class Pulse {
 public:
  /// `timeout` of a collective settles how often the pulse beats. `progress`, which outlives it,
  /// shows whether the rank moves.
  Pulse(Store& store,
        i64 rank,
        i64 world,
        std::chrono::milliseconds timeout,
        const Progress& progress);
  ~Pulse();
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;

  /// This rank tells its failure itself, so it is not the one that others look for.
  void report() noexcept;

  /// Names the rank that is to blame for an error of this one: "rank 3 neither reports nor moves
  /// …"; empty when nobody can be told. Takes some seconds; one rank looks and the others repeat
  /// what it found.
  std::string who_is_silent(ErrorKind kind) noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  void run();
  void beat();
  std::string look();
  bool store_is_silent() const;
  std::string find(const std::string& key) const;

  Store& store_;
  const i64 rank_, world_;
  const std::chrono::milliseconds period_;
  const Progress& progress_;
  std::atomic<Clock::rep> answered_;  // when the store last answered
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false, reported_ = false;
  struct {  // the thread's
    i64 beats = 0;
    u64 moves = 0;
    Clock::time_point moved_at = Clock::now();
  } seen_;
  std::thread thread_;  // the last: it uses all of the above
};

}  // namespace tessera

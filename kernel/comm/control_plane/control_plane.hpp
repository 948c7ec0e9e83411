#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/comm/control_plane/facts.hpp"
#include "kernel/comm/control_plane/rank_wait.hpp"
#include "kernel/comm/control_plane/wait_limits.hpp"
#include "tessera/device/communicator.hpp"
#include "tessera/error.hpp"

namespace tessera {

/// An error from work that all ranks did or waited for; the same on all of them.
class SharedError : public Error {
 public:
  explicit SharedError(const Error& error) : Error(error) {}
};

/// Ranks agree through the store, beside their collectives: they compare, decide and fail together,
/// so that none waits for one that has given up. Every rank makes the same calls with the same
/// `what`, which may come again. A rank that is gone or late is an Error that is no SharedError.
/// Cheap to copy.
class ControlPlane {
 public:
  /// `store` outlives it; nullptr for a world of one.
  ControlPlane(Store* store, i64 rank, i64 world, const WaitLimits& limits)
      : store_(store), rank_(rank), world_(world), limits_(limits) {}
  /// The same for background threads, one of each rank, while the ranks' own threads do something
  /// else: they give up with an Error once `stop` says so.
  ControlPlane in_background(std::stop_token stop) const;

  /// How long a background thread waits for the others: up to the limit or, where their work may
  /// take as long as a step (it waits for its rank's own thread), as long as they have a pulse.
  enum class Wait { patiently, for_a_step };

  /// Runs `work` on every rank and returns every rank's text, by rank. When it fails on any, all
  /// throw SharedError with all different reasons, and kind and rank of the first.
  std::vector<std::string> all(std::string_view what,
                               const std::function<std::string()>& work,
                               Wait wait = Wait::patiently) const;
  /// Work of rank 0 alone; every rank gets its text, once all are here.
  std::string root(std::string_view what,
                   const std::function<std::string()>& work,
                   Wait wait = Wait::patiently) const;
  /// Rank 0 calls `decide`; the others wait for it twice as long, as it may come that much later.
  /// Returns on all ranks when it returns; else throws its error on all of them, a ConfigError
  /// where it was one. For work that is the same for all ranks and takes time.
  void decide(std::string_view what, const std::function<void()>& decide) const;
  /// Returns on all ranks when their facts are the same; else throws the same ConfigError on all of
  /// them, which names the first difference and the two ranks. Call it before ranks communicate: a
  /// later disagreement would hang or give wrong numbers. `advice` says what to do.
  void same(const std::vector<Fact>& facts, std::string_view advice = kSameForAll) const;
  /// Every rank's text, by rank.
  std::vector<std::string> gather(std::string_view what,
                                  std::string_view text,
                                  Wait wait = Wait::patiently) const;
  /// Returns every rank's text on rank 0, which waits for each; the others get nothing and go on at
  /// once. Texts may be long: the store holds each only until rank 0 has it.
  std::vector<std::string> collect(std::string_view what, std::string text) const;
  /// Waits, and ends early with an Error where the background was told to stop.
  void pause(std::chrono::milliseconds time) const;

 private:
  RankWait wait(Wait wait = Wait::patiently) const;
  std::string round_of(std::string_view what) const;
  void compare(const std::string& round, std::string_view advice) const;
  // Call before a failure that all ranks know of ends the run: rank 0, which may serve the store,
  // waits a few seconds for the others, so that they can still read the error.
  void leave() const noexcept;

  Store* store_;
  i64 rank_, world_;
  WaitLimits limits_;
  std::optional<std::stop_token> background_ = {};
};

}  // namespace tessera

#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/launch/agree.hpp"
#include "tessera/comm.hpp"
#include "tessera/error.hpp"

namespace tessera {

/// What ranks threw from work that they did together; the same on all of them.
class TogetherError : public Error {
 public:
  explicit TogetherError(const Error& error) : Error(error) {}
};

/// Work that succeeds on all ranks or fails on all, so that none waits for one that has given up.
/// Every rank makes the same calls. Throws Error of another type when a rank is gone.
class Together {
 public:
  /// `store` is nullptr for a world of one.
  Together(Store* store, i64 rank, i64 world, const Patience& patience)
      : store_(store), rank_(rank), world_(world), patience_(patience) {}
  /// The same among threads that work in the background, one of each rank, while the ranks' own
  /// threads do something else: they ask the store now and then, and give up with an Error once
  /// `stop` says so.
  Together in_background(std::stop_token stop) const;

  /// How long others are waited for in the background: for the time that ranks are patient, or,
  /// where the work of one may take as long as a step (it waits for its rank's own thread), for as
  /// long as that rank has a pulse.
  enum class Wait { patiently, for_a_step };

  /// Runs `work` on every rank and returns every rank's text, by rank. When it fails on any, all
  /// throw TogetherError with all different reasons, and kind and rank of the first.
  std::vector<std::string> all(std::string_view what,
                               const std::function<std::string()>& work,
                               Wait wait = Wait::patiently) const;
  /// Waits, and ends early with an Error where the background was told to stop.
  void pause(std::chrono::milliseconds time) const;

  /// Work of rank 0 alone; every rank gets its text.
  std::string root(std::string_view what,
                   const std::function<std::string()>& work,
                   Wait wait = Wait::patiently) const;
  /// Every rank's text on rank 0, by rank, which waits for each; the others get nothing and go on
  /// at once. Texts may be long.
  std::vector<std::string> collect(std::string_view what, std::string text) const;

 private:
  using Clock = std::chrono::steady_clock;
  std::vector<std::string> gather(const std::string& key, const std::string& text, Wait wait) const;
  // A rank's text, in the background. Without a deadline it is waited for while the rank lives.
  std::string poll(const std::string& round,
                   const std::string& what,
                   i64 peer,
                   std::optional<Clock::time_point>& deadline) const;
  Store* store_;
  i64 rank_, world_;
  Patience patience_;
  std::optional<std::stop_token> background_ = {};
};

}  // namespace tessera

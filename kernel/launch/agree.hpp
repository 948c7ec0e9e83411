#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/comm.hpp"

namespace tessera {

/// One thing that must be the same on all ranks: its name in errors ("configuration") and its text.
using Fact = std::pair<std::string, std::string>;

/// How long ranks wait for each other.
struct Patience {
  template <class Rep, class Period>  // NOLINTNEXTLINE(google-explicit-constructor): a time is one
  Patience(std::chrono::duration<Rep, Period> time) : timeout(time) {}
  Patience(std::chrono::milliseconds time, std::chrono::milliseconds without_pulse)
      : timeout(time), silence(without_pulse) {}
  std::chrono::milliseconds timeout;
  /// Where ranks have pulses (pulse.hpp): a rank whose pulse beat no more for so long is waited for
  /// no longer.
  std::optional<std::chrono::milliseconds> silence;
};

/// Every rank's text, by rank. Called by all ranks with the same key; may be called again with it.
std::vector<std::string> gather_text(Store& store,
                                     i64 rank,
                                     i64 world,
                                     std::string_view key,
                                     std::string_view text,
                                     const Patience& patience);

/// Every rank's text, by rank, on rank 0, and nothing on the others, which do not wait. Texts may
/// be long: the store holds each only until rank 0 has it.
std::vector<std::string> collect_text(Store& store,
                                      i64 rank,
                                      i64 world,
                                      std::string_view key,
                                      std::string text,
                                      const Patience& patience);

constexpr std::string_view kSameForAll =
    "start all ranks with the same program, plugins, files and settings";

/// Returns on all ranks when their facts are the same; else throws the same ConfigError on all of
/// them, which names the first difference (of long texts the line) and the two ranks. For use
/// before ranks communicate: what they would disagree on later would hang or give wrong numbers.
/// `advice` says what to do then.
void agree(Store& store,
           i64 rank,
           i64 world,
           const std::vector<Fact>& facts,
           std::chrono::milliseconds timeout,
           std::string_view advice = kSameForAll);

/// Called by all ranks with the same key: rank 0 calls `decide`, the others wait for it. Returns on
/// all ranks when `decide` returns; else throws its error on all of them. For what is the same for
/// all ranks and takes time.
void decide_on_first(Store& store,
                     i64 rank,
                     i64 world,
                     std::string_view key,
                     const std::function<void()>& decide,
                     std::chrono::milliseconds timeout);

/// Called by every rank before a failure that all of them know ends the run. Rank 0, which may
/// serve the store, waits a few seconds for the others, so that they can still read the error.
/// Never throws. A stop that is requested ends the wait.
void leave_together(Store& store,
                    i64 rank,
                    i64 world,
                    std::string_view key,
                    std::chrono::milliseconds timeout,
                    const std::stop_token& stop = {});

/// The first difference of two ranks' facts, as agree() words it; empty when there is none.
std::string describe_difference(const std::vector<Fact>& mine,
                                i64 my_rank,
                                const std::vector<Fact>& theirs,
                                i64 their_rank,
                                std::string_view advice = kSameForAll);

}  // namespace tessera

#pragma once
#include <cstddef>
#include <mutex>
#include <vector>

#include "tessera/types.hpp"

namespace tessera {

/// Which of several sets gives sample i of a blend, and which of the set's own samples it is. The
/// rule is Megatron-LM's (core/datasets/helpers.cpp): whichever set is furthest behind its weight,
/// w · max(i, 1) − taken, and the first of those that are equally far. It is computed in integers:
/// weights are parts of their sum S. Then the order of all ordinals is known without an end, on
/// every machine: no set is ever a whole sample ahead, so after S samples each has given exactly
/// its parts, and what follows repeats. (At i = 0 the largest weight is taken and at S the first
/// set, so the first S samples are a round of their own.)
///
/// Weights whose parts add up to more than kMostParts, as numbers of tokens do, are rounded to
/// parts of about that. Thread-safe.
class Blend {
 public:
  static constexpr i64 kMostParts = i64{1} << 22;

  explicit Blend(const std::vector<double>& weights);

  struct Place {
    std::size_t set = 0;
    i64 ordinal = 0;
  };
  Place at(i64 sample) const;

  const std::vector<i64>& parts() const { return parts_; }
  /// The sum of all parts.
  i64 round() const { return round_; }

 private:
  static constexpr i64 kStretch = 1024;  // samples between two counts that are kept
  using Counts = std::vector<u32>;       // of each set
  struct Round {
    bool first = false;
    std::vector<Counts> kept;  // at the begin of each stretch so far
  };
  struct Stretch {
    const Round* of = nullptr;
    i64 number = -1;
    std::vector<u32> sets, ordinals;
  };
  void walk(const Round& round, i64 stretch, Counts& counts, Stretch* out) const;

  std::vector<i64> parts_;
  i64 round_ = 1;
  mutable std::mutex mutex_;
  mutable Round first_, later_;
  mutable Stretch last_;  // runs read one sample after the other
};

}  // namespace tessera

#pragma once
#include <span>
#include <vector>

#include "tessera/plan.hpp"

namespace tessera {

/// What a pair of passes runs next: F of the one, or B, Bi, Bw of the other.
struct PairStep {
  Action::Kind kind = Action::F;
  int phase = 0;  ///< index in the plan's phases
  bool operator==(const PairStep&) const = default;
};

/// Takes turns between a forward pass over `forward` and a backward pass over `backward`, so that
/// each exchange (PhaseInfo::lane) is followed by what the other pass computes. With experts on
/// several ranks, of a layer each:
///
///     combine B | attention, router F | experts B, input half | dispatch F
///     | experts B, weight half; dispatch B | experts F; combine F | attention B
///
/// Each pass begins with its computations before its first exchange; the backward pass is first.
/// The halves of what is computed between two exchanges of B are apart where an exchange of F
/// waits: the host reads how many rows it sends while the input half runs. Phases in graphs stay
/// whole. Passes without exchanges take turns layer by layer.
///
/// With `weights_last` the pair ends with weight halves, which other ranks do not wait for: those
/// of the last layer that B computes after its last exchange, with the one before it where that is
/// a single phase. What both passes send to other ranks is complete before them, so that its
/// transfer hides behind them.
std::vector<PairStep> interleave(std::span<const PhaseInfo> phases,
                                 std::span<const int> forward,
                                 std::span<const int> backward,
                                 bool weights_last = false);

}  // namespace tessera

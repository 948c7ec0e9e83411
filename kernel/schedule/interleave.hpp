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

/// Takes turns between a forward pass over `forward` and a backward pass over `backward`, layer by
/// layer (layer_order), so that each exchange (PhaseInfo::starts_exchange) is followed by what the
/// other pass computes. With experts on several ranks, of a layer each:
///
///     combine B | attention, router F | experts B, input half | dispatch F
///     | experts B, weight half; dispatch B | experts F; combine F | attention B
///
/// The backward pass is first where it has an exchange to start, and last to end the layer; what
/// follows the last exchange of F runs with its next layer. The halves of what is computed between
/// two exchanges of B are apart where an exchange of F waits: the host reads how many rows it sends
/// while the input half runs. A layer without exchanges is divided among those of the other pass;
/// where neither has any, F runs the layer and then B does. Phases in graphs stay whole.
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

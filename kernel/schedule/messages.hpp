#pragma once
#include <vector>

#include "kernel/schedule/orders.hpp"
#include "tessera/plan.hpp"

namespace tessera {

/// Messages that one rank posts together, before action `before` of its order.
struct PlannedExchange {
  std::vector<PlanAction::Message> sends, receives;
  int before = 0;
  /// The action of this rank's order that waits for the sends, so that their memory is free: the
  /// order's size where that is the end.
  int released = 0;
};

/// The exchanges of each rank, in launch order. All messages of the pipeline have one total order,
/// by the time at which their values exist when the orders are played with unit costs; every rank
/// posts its own in that order, so none can wait for a later one: no deadlock under rendezvous, and
/// both ends of a pair list the same sequence. A send is posted after its producer, a receive
/// before the action that runs while the value is made, so that the transfer has time to overlap.
/// Sends are released where waiting for them takes no time: at the first action that reads what the
/// peer computed after it had read them. A forward-only pipeline has no such action; there a rank
/// may be kForwardSends messages ahead of its peer.
inline constexpr std::size_t kForwardSends = 3;
std::vector<std::vector<PlannedExchange>> exchanges_of(const Orders& orders);

}  // namespace tessera

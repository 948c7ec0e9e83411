#pragma once
#include "ranks_support.hpp"

/// What every communicator that reduces on the host must do, as bodies of multirank tests: each
/// runs on all ranks, compares with a plain loop over values that all ranks can compute, and throws
/// with the first difference.
namespace tessera::testing {

/// All element types and operators, on sizes around the borders of the ways that data take.
void check_all_reduce(TestRank& rank);
void check_all_gather(TestRank& rank);
void check_reduce_scatter(TestRank& rank);
void check_broadcast(TestRank& rank);
void check_exchange(TestRank& rank);
/// All members have the same bits of random floats, run after run, whatever the order of the sum.
void check_same_bits(TestRank& rank);
/// Sums of 16-bit floats that lose terms, or depend on their order, unless they are added wider and
/// rounded once: every member has what one rounding of the exact sum gives.
void check_rounds_once(TestRank& rank);
/// Random collectives over two overlapping groups; each rank waits in an order of its own.
void check_random_sequences(TestRank& rank, u64 seed);
/// The same over these groups.
void check_random_sequences(TestRank& rank, u64 seed, const std::vector<std::vector<i64>>& members);
/// More collectives under way than any ring of slots holds.
void check_many_under_way(TestRank& rank);
/// A recorded step is replayed with new values each time; its collectives count when replayed.
void check_graph_replay(TestRank& rank);

/// A wait returns while the peer has not taken what was sent before, or in the same exchange.
void check_waits_for_one(TestRank& rank);
/// A Work that nobody waits for waits itself: its tensors may go, its result is there.
void check_dropped_work(TestRank& rank);

/// All of the above but the replay, in one go, for processes that are costly to start.
void check_everything(TestRank& rank);

}  // namespace tessera::testing

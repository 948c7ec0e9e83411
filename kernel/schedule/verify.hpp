#pragma once
#include <span>
#include <string_view>

#include "kernel/schedule/lower.hpp"
#include "tessera/plan.hpp"

namespace tessera {

/// Plays one rank's plan before anything starts and throws Error naming the first offending action:
/// each phase of each microbatch forward once and backward once (B, or Bi then Bw), dependencies
/// before their users, phases in order, what crosses to other ranks sent and received once and
/// waited for, ranges recomputed before their backward, live microbatches within the declared
/// bound, every bucket reduced once after its last gradient and, where ranks update shards,
/// gathered once before its first reader, which waits for it, one Step at the end.
void verify(const Plan& plan);

/// All pipeline ranks' plans, by rank: each by itself, then what is between them. They are of one
/// shape with every stage once; each directed pair lists the same messages on both ends; played
/// under rendezvous (a send ends when its receive is posted, so no buffering is relied on) and with
/// every rank's exchanges in launch order on one stream, all end.
void verify(std::span<const Plan> plans);

/// A schedule by itself, for all ranks of a shape: lowered with one phase a chunk. What came of it
/// is returned, so that nobody asks the schedule twice.
Pipeline verify(const PipelineSchedule& schedule, const PipelineShape& shape);

/// Throws the error of an offending action: names rank, index and text.
[[noreturn]] void reject(const Plan& plan, std::size_t action, std::string_view what);

}  // namespace tessera

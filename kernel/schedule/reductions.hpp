#pragma once
#include "tessera/plan.hpp"

namespace tessera {

/// Inserts one Reduce for each of plan.bucket_layers, right after the action that adds the last
/// gradient to it (and the exchange that sends that action's result on: a neighbour waits for it).
void add_reductions(Plan& plan);

/// Inserts one Gather for each of plan.bucket_layers: its parameters were updated by the step
/// before, each shard on another rank. The first phase that reads a bucket waits for its Gather,
/// which starts before the first phase that reads the bucket before it (at the start of the plan
/// where there is none), so that it overlaps with that bucket's phases. Buckets follow each other
/// in the order in which they are read.
void add_gathers(Plan& plan);

/// Inserts one Prepare for each bucket of plan.prepared, after its Gather, right before the first
/// phase that reads it, which waits.
void add_prepares(Plan& plan);

/// Appends the Step of a training plan, after every reduction and every exchange.
void add_step(Plan& plan);

}  // namespace tessera

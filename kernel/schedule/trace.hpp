#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/memory.hpp"
#include "tessera/plan.hpp"

namespace tessera {

/// When one action of a plan ran, in seconds since some moment that all ranks share.
struct ActionTimes {
  double begin = 0;  ///< of its wait for what comes first; a prediction has none
  double start = 0;  ///< of its own work
  double end = 0;    ///< of an Exchange, Gather or Reduce: when it is posted
};

/// Whose actions they are.
struct TracedRank {
  i64 rank = 0;           ///< global: the process of the trace
  std::string name;       ///< "rank 3, pp 1 dp 1"
  i64 pipeline = 0;       ///< global rank of the first member of its pipeline group
  int stage_of_rank = 0;  ///< its index in that group
  i64 step = 0;
};

/// Objects of Chrome's trace event format, separated by commas: what one rank did in one step. A
/// track a lane (compute; exchanges between stages; collectives over buckets), a slice an action
/// with microbatch, chunk, layer, scope and the actions it waited for, an arrow end a message, and
/// counters of memory by category after each action, where `memory` has them.
std::string trace_events(const TracedRank& of,
                         const Plan& plan,
                         std::span<const ActionTimes> times,
                         std::span<const MemoryStats> memory = {});

/// A file that Perfetto and Chrome's tracing page open, of such objects.
std::string trace_file(std::span<const std::string> events);

}  // namespace tessera

#pragma once
#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/schedule/timeline.hpp"
#include "tessera/base/memory.hpp"
#include "tessera/plan.hpp"

namespace tessera {

/// When one action of a plan ran, in seconds since some moment that all ranks share.
struct ActionTimes {
  double begin = 0;  ///< of its wait for what comes first
  double start = 0;  ///< of its own work
  double end = 0;    ///< of an Exchange, Gather or Reduce: when it is posted
};

/// Integers that one action of a plan reads back and another one waits for.
struct TracedReadback {
  int from = 0, to = 0;
  int phase = 0;  ///< phase that reads them back; in a graph, perhaps one of several
};

/// What one rank did in one step, or will do.
struct TracedStep {
  i64 step = 0;
  std::vector<ActionTimes> times = {};  ///< by action; empty where the step was one replay
  /// Bytes in use by category after each action; empty: not known.
  std::vector<std::array<i64, kCategories>> memory = {};
  std::optional<Span> replay = {};  ///< of the graph of a whole step
};

/// Graphs of a slot that an action of a plan replays.
struct TracedReplay {
  int action = 0;
  std::string name;  ///< "layer0 attn to moe_preprocess, forward"
  int slot = 0;
};

/// What a plan does beyond its actions, in every step.
struct TracedDetails {
  std::vector<TracedReplay> replays = {};
  std::vector<TracedReadback> readbacks = {};
};

/// Whose actions they are.
struct TracedRank {
  i64 rank = 0;           ///< global: the process of the trace
  std::string name;       ///< "rank 3, pp 1 dp 1"
  i64 pipeline = 0;       ///< global rank of the first member of its pipeline group
  int stage_of_rank = 0;  ///< its index in that group
};

/// Objects of Chrome's trace event format, separated by commas: what one rank did in one step. On
/// each track slices follow each other. Tracks, each only where it is used:
///
/// - compute: a slice for each action of the compute stream, with microbatch, chunk, layer, scope,
///   the actions that it waited for, and how long;
/// - comm forward, comm backward: what a phase that starts an exchange has under way, up to its
/// reader;
/// - exchange, collective: messages between stages, and sums and gathers of buckets, as posted; of
///   each bucket also an event of category "bucket", up to the work of the first action that reads
///   it, and of other buckets at the same time;
/// - readback: integers on their way to the host, up to the phase that waits for them;
/// - graph: replays, with segment and slot.
///
/// An arrow goes from each message, and from each readback, to its reader. Counters tell the memory
/// by category after each action.
std::string trace_events(const TracedRank& of,
                         const Plan& plan,
                         const TracedStep& step,
                         const TracedDetails& details = {});

/// A file that Perfetto and Chrome's tracing page open, of such objects.
std::string trace_file(std::span<const std::string> events);

}  // namespace tessera

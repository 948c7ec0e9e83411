#pragma once
#include <string>

#include "tessera/types.hpp"

namespace tessera {

/// What a rank captured, in numbers. No segments: nothing.
struct GraphUse {
  bool whole_step = false;  ///< one graph holds all that a step does
  int segments = 0, graphs = 0;
  int slots = 0;                   ///< of all chunks
  int live_pairs = 0;              ///< most (microbatch, chunk) that are live at once
  i64 input_bytes = 0;             ///< memory that is written around graphs, of all slots
  i64 slot_bytes = 0;              ///< the slots' own arenas
  i64 scratch_bytes = 0;           ///< arenas that all graphs share
  i64 launches = 0, replayed = 0;  ///< operations of a step; those of them in graphs
  /// "24 graphs of 6 segments in 2 slots, …", "1 graph of a whole step, …".
  std::string text() const;
};

}  // namespace tessera

#pragma once
#include <span>
#include <vector>

#include "tessera/plan.hpp"

namespace tessera {

/// One message with both its ends: which of the exchange's sends or receives it is.
struct Match {
  struct End {
    std::size_t action = 0, message = 0;
  };
  int from = 0, to = 0;  ///< pipeline ranks
  End sender, receiver;
};

/// Pairs each directed pair's sends with its receives, first in first out; per pair in launch
/// order. Throws Error naming the first action whose message is another than the peer's, or has
/// none.
std::vector<Match> match_messages(std::span<const Plan> plans);

}  // namespace tessera

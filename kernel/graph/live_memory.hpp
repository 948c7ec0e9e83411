#pragma once
#include <map>
#include <string>
#include <vector>

#include "tessera/types.hpp"

namespace tessera {

struct AddressRange {
  const void* address = nullptr;
  i64 bytes = 0;
};

/// What a captured graph writes, as recorded during its capture.
struct GraphMemory {
  std::string name;                   ///< "layers.0 slot 1 input half"
  std::string slot;                   ///< whose memory `kept` is: "layers.0 slot 1"
  int index = 0;                      ///< among the slot's graphs, in the order of their replay
  bool last = false;                  ///< ends the slot's microbatch
  std::vector<AddressRange> kept;     ///< read after the graph has run
  std::vector<AddressRange> scratch;  ///< dead when it ends
  /// In memory that slots share: read by the slot's later graphs, up to the last.
  std::vector<AddressRange> recomputed = {};
};

/// Plays replays in a plan's order over recorded addresses and rejects a write to memory that holds
/// values still to be read. A slot's memory is live from its forward graph to its last graph, the
/// backward or, where halves are split, the weight half; what the backward graphs leave is live
/// until the slot's next forward. What a message sends is live while it is under way.
class LiveMemory {
 public:
  /// Accounts for one replay. Throws Error naming both graphs and the address.
  void replay(const GraphMemory& graph);
  /// Message `name` reads these ranges until it is released.
  void send(const std::string& name, std::vector<AddressRange> ranges);
  void release(const std::string& name);

 private:
  struct Held {
    int next = 0;    ///< index of the graph that follows
    std::string by;  ///< the graph that ran last
    std::vector<AddressRange> forward, backward;
  };
  std::map<std::string, Held> slots_;
  std::map<std::string, std::vector<AddressRange>> sent_;  // by message
};

}  // namespace tessera

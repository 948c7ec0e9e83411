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
  std::string name;                   ///< "layers.0 slot 1 backward"
  std::string slot;                   ///< whose memory `kept` is: "layers.0 slot 1"
  bool backward = false;              ///< ends the slot's microbatch
  std::vector<AddressRange> kept;     ///< read after the graph has run
  std::vector<AddressRange> scratch;  ///< dead when it ends
};

/// Plays replays in a plan's order over recorded addresses and rejects a write to memory that holds
/// values still to be read. A slot's memory is live from its forward to its backward; what the
/// backward leaves is live until the slot's next forward.
class LiveMemory {
 public:
  /// Accounts for one replay. Throws Error naming both graphs and the address.
  void replay(const GraphMemory& graph);

 private:
  struct Held {
    bool microbatch = false;  ///< forward done, backward not
    std::string by;           ///< the graph that wrote it
    std::vector<AddressRange> ranges;
  };
  std::map<std::string, Held> slots_;
};

}  // namespace tessera

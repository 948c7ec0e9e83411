#include "kernel/graph/live_memory.hpp"

#include "tessera/error.hpp"

namespace tessera {

namespace {

bool overlap(const AddressRange& a, const AddressRange& b) {
  const auto* a_begin = static_cast<const std::byte*>(a.address);
  const auto* b_begin = static_cast<const std::byte*>(b.address);
  return a_begin < b_begin + b.bytes && b_begin < a_begin + a.bytes;
}

void check(const std::string& graph,
           const std::vector<AddressRange>& written,
           const std::string& holder,
           const std::vector<AddressRange>& live) {
  for (const AddressRange& write : written) {
    for (const AddressRange& range : live) {
      require(!overlap(write, range),
              "graph \"{}\" writes {} bytes at {}, where \"{}\" has {} bytes at {} that are still "
              "to be read",
              graph,
              write.bytes,
              write.address,
              holder,
              range.bytes,
              range.address);
    }
  }
}

}  // namespace

void LiveMemory::replay(const GraphMemory& graph) {
  Held& own = slots_[graph.slot];
  if (graph.backward) {
    require(own.microbatch, "graph \"{}\" runs before the forward of its slot", graph.name);
    check(graph.name, graph.scratch, own.by, own.ranges);
  } else {
    require(!own.microbatch,
            "graph \"{}\" overwrites the microbatch that its slot still holds for its backward",
            graph.name);
  }
  check(graph.name, graph.scratch, graph.name, graph.kept);
  for (const auto& [slot, held] : slots_) {
    if (slot == graph.slot) continue;
    check(graph.name, graph.kept, held.by, held.ranges);
    check(graph.name, graph.scratch, held.by, held.ranges);
  }
  own = {!graph.backward, graph.name, graph.kept};
}

}  // namespace tessera

#include "kernel/graph/live_memory.hpp"

#include <utility>

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
  if (graph.index == 0) {
    require(own.next == 0,
            "graph \"{}\" overwrites the microbatch that its slot still holds after \"{}\"",
            graph.name,
            own.by);
    own = {};
  } else {
    require(graph.index == own.next,
            "graph \"{}\" runs before the graphs of its slot that come before it",
            graph.name);
  }
  for (auto& [slot, held] : slots_) {
    for (const std::vector<AddressRange>* live : {&held.forward, &held.backward}) {
      if (slot != graph.slot) check(graph.name, graph.kept, held.by, *live);
      check(graph.name, graph.recomputed, held.by, *live);
      check(graph.name, graph.scratch, held.by, *live);
    }
  }
  for (const auto& [message, ranges] : sent_) {
    for (const auto* written : {&graph.kept, &graph.recomputed, &graph.scratch}) {
      check(graph.name, *written, message, ranges);
    }
  }
  check(graph.name, graph.scratch, graph.name, graph.kept);
  own.by = graph.name;
  own.next = graph.last ? 0 : graph.index + 1;
  own.forward.insert(own.forward.end(), graph.recomputed.begin(), graph.recomputed.end());
  if (graph.last) own.forward.clear();
  std::vector<AddressRange>& written = graph.index == 0 ? own.forward : own.backward;
  written.insert(written.end(), graph.kept.begin(), graph.kept.end());
}

void LiveMemory::send(const std::string& name, std::vector<AddressRange> ranges) {
  sent_[name] = std::move(ranges);
}

void LiveMemory::release(const std::string& name) { sent_.erase(name); }

}  // namespace tessera

#include "kernel/train/setup/connections.hpp"

#include <algorithm>
#include <vector>

namespace tessera {

namespace {

// Of the larger side: buckets of gradients may have gigabytes, which would be in the way here.
constexpr i64 kMostBytes = i64{64} << 20;
constexpr std::string_view kName = "connect";

Tensor empty(Device& device, i64 elements, DType dtype) {
  return Tensor::allocate(
      device, device.pool(), device.stream(), {elements}, dtype, Category::communication);
}

std::vector<ProcessGroup::Part> parts(const std::set<int>& peers, Device& device) {
  std::vector<ProcessGroup::Part> list;
  list.reserve(peers.size());
  for (const int peer : peers) list.push_back({peer, empty(device, 1, DType::u8)});
  return list;
}

}  // namespace

void Connections::saw(const GroupSpec& group, const Collective& c) {
  Use& use = by_group_[group.name];
  if (c.kind == CollectiveKind::exchange) {
    for (const Transfer& part : c.sends) use.sends.insert(part.peer);
    for (const Transfer& part : c.receives) use.receives.insert(part.peer);
    return;
  }
  const i64 larger = c.kind == CollectiveKind::all_gather ? group.size() : 1;
  const i64 most = kMostBytes / (larger * dtype_size(c.input.dtype));
  const i64 input = moves_parts(c.kind) ? 0 : std::min(c.input.elements(), most);
  use.kinds.insert({c.kind, c.input.dtype, c.op, input});
}

void Connections::make(const Mesh& mesh, Device& device) const {
  for (const auto& group : mesh.all()) {  // in the order in which all ranks made them
    const auto use = by_group_.find(group->name());
    if (group->size() > 1 && use != by_group_.end()) make(*group, use->second, device);
  }
  device.reset_peaks();
}

void Connections::make(ProcessGroup& group, const Use& use, Device& device) {
  Stream& stream = device.stream();
  const i64 size = group.size();
  std::set<int> all;
  for (int member = 0; member < size; ++member) all.insert(member);
  for (const Kind& kind : use.kinds) {
    // What is scattered is a multiple of the members, also where it was cut.
    const bool gathers = kind.kind == CollectiveKind::all_gather;
    const i64 part = std::max(gathers ? kind.elements : kind.elements / size, i64{1});
    switch (kind.kind) {
      case CollectiveKind::all_reduce:
        group.all_reduce(stream, empty(device, kind.elements, kind.dtype), kind.op, kName).join();
        break;
      case CollectiveKind::all_gather:
        group
            .all_gather(stream,
                        empty(device, part, kind.dtype),
                        empty(device, part * size, kind.dtype),
                        kName)
            .join();
        break;
      case CollectiveKind::reduce_scatter:
        group
            .reduce_scatter(stream,
                            empty(device, part * size, kind.dtype),
                            empty(device, part, kind.dtype),
                            kName)
            .join();
        break;
      case CollectiveKind::broadcast:
        group.broadcast(stream, empty(device, kind.elements, kind.dtype), 0, kName).join();
        break;
      case CollectiveKind::all_to_all:
        group.all_to_all(stream, parts(all, device), parts(all, device), kName).join();
        break;
      case CollectiveKind::barrier:
        group.barrier(stream, kName);
        break;
      case CollectiveKind::exchange:  // below
        break;
    }
  }
  if (!use.sends.empty() || !use.receives.empty()) {
    group.exchange(stream, parts(use.sends, device), parts(use.receives, device), kName).join();
  }
  group.reset_counters();
}

}  // namespace tessera

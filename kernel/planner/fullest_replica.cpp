#include "kernel/planner/fullest_replica.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera {

namespace {

// The ranks of the group over `axes` that `rank` is in.
std::vector<i64> group_of(const RankGenerator& ranks, std::string_view axes, i64 rank) {
  for (std::vector<i64>& members : ranks.groups(axes)) {
    if (std::ranges::find(members, rank) != members.end()) return std::move(members);
  }
  return {};
}

// Each rank's place in its group over `axes`.
std::vector<i64> places(const RankGenerator& ranks, std::string_view axes) {
  std::vector<i64> places(static_cast<std::size_t>(ranks.layout().world));
  for (const std::vector<i64>& members : ranks.groups(axes)) {
    for (std::size_t i = 0; i < members.size(); ++i) {
      places[static_cast<std::size_t>(members[i])] = static_cast<i64>(i);
    }
  }
  return places;
}

}  // namespace

i64 fullest_replica(const Mesh& mesh, const ParameterMemory& memory, Optimizer& optimizer) {
  const auto cut = [](const ParameterBucket& bucket) {
    return bucket.members.front().shard == ParameterBucket::kCut;
  };
  if (std::ranges::any_of(memory.buckets(), cut)) return mesh.rank();
  std::map<const Parameter*, i64> state_bytes;
  for (const NamedState& state : optimizer.state()) {  // of all parameters, also of others' ones
    state_bytes[state.parameter] +=
        state.tensor_of().local.elements() * dtype_size(state.tensor.dtype());
  }
  const i64 main_size = memory.has_all_main() ? 0 : dtype_size(memory.main().dtype());
  std::map<i64, i64> dense, experts;  // bytes by shard
  for (const ParameterBucket& bucket : memory.buckets()) {
    for (const ParameterBucket::Member& member : bucket.members) {
      const Parameter& parameter = *member.parameter;
      (parameter.layout.expert() ? experts : dense)[member.shard] +=
          parameter.local.elements() * main_size + state_bytes[&parameter];
    }
  }
  const RankGenerator& ranks = mesh.ranks();
  const std::vector<i64> replicas = group_of(ranks, "dp-cp", mesh.rank());
  const std::vector<i64> expert_places = places(ranks, "edp");
  i64 fullest = mesh.rank(), most = -1;
  for (std::size_t place = 0; place < replicas.size(); ++place) {
    const i64 rank = replicas[place];
    if (ranks.coordinate(rank, Axis::context) != mesh.coordinate(Axis::context)) continue;
    const i64 bytes =
        dense[static_cast<i64>(place)] + experts[expert_places[static_cast<std::size_t>(rank)]];
    if (bytes <= most) continue;
    most = bytes;
    fullest = rank;
  }
  return fullest;
}

}  // namespace tessera

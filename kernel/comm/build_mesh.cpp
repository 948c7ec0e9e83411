#include "kernel/comm/build_mesh.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "kernel/comm/memory_kinds.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

// By Mesh::group_names().
constexpr CommLane kLanes[] = {CommLane::critical,  // tp
                               CommLane::critical,  // cp
                               CommLane::bulk,      // dp
                               CommLane::exchange,  // pp
                               CommLane::experts,   // etp
                               CommLane::experts,   // ep
                               CommLane::bulk,      // edp
                               CommLane::bulk,      // dp-cp
                               CommLane::bulk,      // tp-pp
                               CommLane::critical,  // tp-cp
                               CommLane::bulk,      // tp-cp-dp
                               CommLane::experts,   // etp-ep
                               CommLane::bulk};     // world

std::vector<std::vector<i64>> groups_of(const RankGenerator& ranks, std::string_view name) {
  if (name != "world") return ranks.groups(name);
  std::vector<i64> all(static_cast<std::size_t>(ranks.layout().world));
  std::iota(all.begin(), all.end(), i64{0});
  return {all};
}

void build(Mesh& mesh, Communicator* communicator, Device* device, Progress* progress) {
  int id = 0;
  const std::span<const std::string_view> names = Mesh::group_names();
  require(names.size() == std::size(kLanes), "a group of the mesh has no lane");
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string_view name = names[i];
    const CommLane lane = kLanes[i];
    for (const std::vector<i64>& members : groups_of(mesh.ranks(), name)) {
      const int group_id = id++;
      const auto here = std::find(members.begin(), members.end(), mesh.rank());
      if (here == members.end()) continue;
      GroupSpec spec{.name = group_name(name, members),
                     .members = members,
                     .index = static_cast<int>(here - members.begin()),
                     .id = group_id,
                     .lane = lane};
      std::unique_ptr<GroupBackend> backend;
      if (members.size() > 1) backend = communicator->create_group(spec, *device);
      mesh.set_group(name,
                     std::make_shared<ProcessGroup>(
                         std::move(spec), std::move(backend), mesh.rank(), progress));
    }
  }
}

}  // namespace

std::string group_name(std::string_view name, std::span<const i64> members) {
  if (members.size() <= 8) return fmt::format("{}[{}]", name, fmt::join(members, ","));
  return fmt::format("{}[{},…,{}]", name, fmt::join(members.first(3), ","), members.back());
}

void build_mesh(Mesh& mesh, Communicator& communicator, Device& device, Progress* progress) {
  check_memory_kinds(device, communicator, false);
  build(mesh, &communicator, &device, progress);
}

void build_mesh(Mesh& mesh) {
  require(mesh.world_size() == 1, "a mesh of {} ranks needs a communicator", mesh.world_size());
  build(mesh, nullptr, nullptr, nullptr);
}

}  // namespace tessera

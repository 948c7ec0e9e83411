#include "tessera/mesh.hpp"

#include <algorithm>
#include <utility>

#include "tessera/error.hpp"
#include "tessera/process_group.hpp"

namespace tessera {

Mesh::Mesh(RankGenerator generator, i64 rank) : generator_(std::move(generator)), rank_(rank) {
  require(rank >= 0 && rank < world_size(), "rank {} of a world of {}", rank, world_size());
}

Mesh::~Mesh() = default;

std::span<const std::string_view> Mesh::group_names() {
  static constexpr std::array<std::string_view, kGroups> kNames = {"tp",
                                                                   "cp",
                                                                   "dp",
                                                                   "pp",
                                                                   "etp",
                                                                   "ep",
                                                                   "edp",
                                                                   "dp-cp",
                                                                   "tp-pp",
                                                                   "tp-cp",
                                                                   "tp-cp-dp",
                                                                   "etp-ep",
                                                                   "world"};
  return kNames;
}

int Mesh::index_of(std::string_view name) {
  const auto found = std::ranges::find(group_names(), name);
  require(found != group_names().end(), "a mesh has no group \"{}\"", name);
  return static_cast<int>(found - group_names().begin());
}

ProcessGroup& Mesh::at(int group) const {
  ProcessGroup* found = groups_[static_cast<std::size_t>(group)];
  require(found != nullptr,
          "group \"{}\": this mesh has no communicators, nothing may run over it",
          group_names()[static_cast<std::size_t>(group)]);
  return *found;
}

void Mesh::set_group(std::string_view name, std::shared_ptr<ProcessGroup> group) {
  ProcessGroup*& place = groups_[static_cast<std::size_t>(index_of(name))];
  require(place == nullptr, "the mesh has two groups \"{}\"", name);
  place = group.get();
  all_.push_back(std::move(group));
}

ProcessGroup& Mesh::named(std::string_view name) const { return at(index_of(name)); }

}  // namespace tessera

#include "tessera/mesh.hpp"

#include <utility>

#include "tessera/comm.hpp"
#include "tessera/error.hpp"

namespace tessera {

Mesh::Mesh(RankGenerator generator, i64 rank) : generator_(std::move(generator)), rank_(rank) {
  require(rank >= 0 && rank < world_size(), "rank {} of a world of {}", rank, world_size());
}

Mesh::~Mesh() = default;

ProcessGroup& Mesh::group(Axis axis) const { return named(axis_name(axis)); }
ProcessGroup& Mesh::world() const { return named("world"); }
ProcessGroup& Mesh::data_context() const { return named("dp-cp"); }
ProcessGroup& Mesh::model() const { return named("tp-pp"); }

void Mesh::set_group(std::string_view name, std::shared_ptr<ProcessGroup> group) {
  for (const auto& [known, other] : groups_) {
    require(known != name, "the mesh has two groups \"{}\"", name);
  }
  all_.push_back(group);
  groups_.emplace_back(name, std::move(group));
}

ProcessGroup& Mesh::named(std::string_view name) const {
  for (const auto& [known, group] : groups_) {
    if (known == name) return *group;
  }
  require(!groups_.empty(),
          "group \"{}\": this mesh has no communicators (a configuration check builds none)",
          name);
  fail("the mesh has no group \"{}\"", name);
}

}  // namespace tessera

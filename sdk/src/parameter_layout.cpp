#include "tessera/parameter_layout.hpp"

#include <algorithm>

#include "tessera/error.hpp"

namespace tessera {

namespace {

std::vector<i64> sections_of(const Split& split, i64 logical) {
  if (split.sections.empty()) return {logical};
  i64 total = 0;
  for (const i64 section : split.sections) total += section;
  require(total == logical, "sections of {} elements cut a dimension of {}", total, logical);
  return split.sections;
}

}  // namespace

i64 split_storage(const Split& split, i64 logical, i64 size) {
  if (split.pad_to > 0) {
    require(split.sections.empty(), "a dimension with sections cannot be padded");
    const i64 unit = split.pad_to * size;
    return (logical + unit - 1) / unit * split.pad_to;
  }
  for (const i64 section : sections_of(split, logical)) {
    if (section % size != 0) {
      fail_config("dimension {} of size {} does not divide among {} ranks of axis {}",
                  split.dim,
                  section,
                  size,
                  axis_name(split.axis));
    }
  }
  return logical / size;
}

std::vector<Slice> split_slices(const Split& split, i64 logical, i64 index, i64 size) {
  if (split.pad_to > 0) {
    const i64 storage = split_storage(split, logical, size), begin = index * storage;
    const i64 length = std::clamp<i64>(logical - begin, 0, storage);
    return length > 0 ? std::vector<Slice>{{0, begin, length}} : std::vector<Slice>{};
  }
  std::vector<Slice> slices;
  i64 local = 0, begin = 0;
  for (const i64 section : sections_of(split, logical)) {
    const i64 part = section / size;
    slices.push_back({local, begin + index * part, part});
    local += part;
    begin += section;
  }
  return slices;
}

ParameterLayout::ParameterLayout(const Shape& logical,
                                 const std::vector<Split>& split,
                                 const Placement& placement,
                                 const Mesh& mesh,
                                 std::vector<int> holders)
    : logical_(logical),
      storage_(logical),
      partial_(placement.partial),
      holders_(std::move(holders)) {
  for (int dim = 0; dim < logical.rank(); ++dim) {
    slices_[static_cast<std::size_t>(dim)] = {{0, 0, logical[dim]}};
  }
  for (const Split& at : split) {
    require(
        at.dim >= 0 && at.dim < logical.rank(), "a split of dimension {} of {}", at.dim, logical);
    require(!cut(at.axis), "{} is split along {} twice", logical, axis_name(at.axis));
    require(std::ranges::count(split, at.dim, &Split::dim) == 1,
            "dimension {} of {} is split along two axes",
            at.dim,
            logical);
    const i64 size = mesh.size(at.axis);
    cut_[static_cast<std::size_t>(at.axis)] = true;
    if (column_dim_ == 0) column_dim_ = at.dim;
    storage_[at.dim] = split_storage(at, logical[at.dim], size);
    slices_[static_cast<std::size_t>(at.dim)] =
        split_slices(at, logical[at.dim], mesh.coordinate(at.axis), size);
  }
  const auto stands_for = [&](Axis axis) { return cut(axis) || mesh.first(axis); };
  const bool first_holder = holders_.empty() || holders_.front() == mesh.coordinate(Axis::pipeline);
  counted_ = first_holder && (expert() ? stands_for(Axis::expert_tensor) && stands_for(Axis::expert)
                                       : stands_for(Axis::tensor));
  saved_ = first_holder;
  const std::array dense = {Axis::tensor, Axis::context, Axis::data};
  const std::array experts = {Axis::expert_tensor, Axis::expert, Axis::expert_data};
  for (const Axis axis : expert() ? experts : dense) saved_ &= stands_for(axis);
}

bool ParameterLayout::partial(Axis axis) const {
  return std::ranges::find(partial_, axis) != partial_.end();
}

ProcessGroup& ParameterLayout::replicas(const Mesh& mesh) const {
  return expert() ? mesh.group(Axis::expert_data) : mesh.data_context();
}

std::vector<ElementRun> ParameterLayout::runs() const {
  const int rank = logical_.rank();
  const Shape local = dense_strides(storage_), logical = dense_strides(logical_);
  std::vector<ElementRun> runs{{0, 0, 1}};
  for (int dim = 0; dim < rank; ++dim) {
    const bool last = dim == rank - 1;
    std::vector<ElementRun> deeper;
    for (const ElementRun& run : runs) {
      for (const Slice& slice : slices(dim)) {
        const i64 steps = last ? 1 : slice.length;
        for (i64 i = 0; i < steps; ++i) {
          deeper.push_back({run.local + (slice.local + i) * local[dim],
                            run.logical + (slice.logical + i) * logical[dim],
                            last ? slice.length : 1});
        }
      }
    }
    runs = std::move(deeper);
  }
  std::vector<ElementRun> joined;
  for (const ElementRun& run : runs) {
    if (!joined.empty() && joined.back().local + joined.back().length == run.local &&
        joined.back().logical + joined.back().length == run.logical) {
      joined.back().length += run.length;
    } else {
      joined.push_back(run);
    }
  }
  return joined;
}

}  // namespace tessera

#include "tessera/base/parameter_layout.hpp"

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
    : logical_(logical), split_(split), partial_(placement.partial), holders_(std::move(holders)) {
  expert_ = cut(Axis::expert) || cut(Axis::expert_tensor);
  place(mesh);
}

// Which elements are here, and for which of them this rank stands.
void ParameterLayout::place(const Mesh& mesh) {
  storage_ = logical_;
  for (int dim = 0; dim < logical_.rank(); ++dim) {
    slices_[static_cast<std::size_t>(dim)] = {{0, 0, logical_[dim]}};
  }
  for (const Split& at : split_) {
    require(
        at.dim >= 0 && at.dim < logical_.rank(), "a split of dimension {} of {}", at.dim, logical_);
    require(std::ranges::count(split_, at.axis, &Split::axis) == 1,
            "{} is split along {} twice",
            logical_,
            axis_name(at.axis));
    require(std::ranges::count(split_, at.dim, &Split::dim) == 1,
            "dimension {} of {} is split along two axes",
            at.dim,
            logical_);
    const i64 size = mesh.size(at.axis);
    if (column_dim_ == 0) column_dim_ = at.dim;
    storage_[at.dim] = split_storage(at, logical_[at.dim], size);
    slices_[static_cast<std::size_t>(at.dim)] =
        split_slices(at, logical_[at.dim], mesh.coordinate(at.axis), size);
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

ParameterLayout ParameterLayout::of_state(const StateShape& shape, const Mesh& mesh) const {
  require(shape.size() <= kMaxRank, "{} dimensions: the most are {}", shape.size(), kMaxRank);
  ParameterLayout state;
  state.expert_ = expert_;  // its copies are where the parameter's are
  state.holders_ = holders_;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const auto [size, along] = shape[d];
    require(size >= 1, "dimension {} has {} elements", d, size);
    state.logical_.push_back(size);
    if (along < 0) continue;
    require(along < logical_.rank() && logical_[along] == size,
            "dimension {} of {} elements lies along dimension {} of {}",
            d,
            size,
            along,
            logical_);
    for (Split split : split_) {
      if (split.dim != along) continue;
      split.dim = static_cast<int>(d);
      state.split_.push_back(std::move(split));
    }
  }
  state.place(mesh);
  return state;
}

int ParameterLayout::cut_dim(Axis axis) const {
  const auto split = std::ranges::find(split_, axis, &Split::axis);
  return split != split_.end() ? split->dim : -1;
}

i64 ParameterLayout::unpadded(int dim) const {
  i64 elements = 0;
  for (const Slice& slice : slices(dim)) elements += slice.length;
  return elements;
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

#include "tessera/parameter.hpp"

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

bool Parameter::has_tag(std::string_view tag) const {
  return std::ranges::find(tags, tag) != tags.end();
}

std::vector<Slice> Parameter::slices(int dim, const Mesh& mesh) const {
  for (const Split& cut : split) {
    if (cut.dim == dim) {
      return split_slices(cut, logical[dim], mesh.coordinate(cut.axis), mesh.size(cut.axis));
    }
  }
  return {{0, 0, logical[dim]}};
}

}  // namespace tessera

// Do the slices of an index cover every tensor exactly once?
#include <algorithm>
#include <span>
#include <unordered_map>

#include "kernel/checkpoint/index.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"
#include "tessera/types.hpp"

namespace tessera {

namespace {

using Point = unsigned __int128;  // a corner of a rectangle, as one number

std::vector<Point> corners_of(const Rectangle& slice,
                              const std::vector<std::size_t>& dims,
                              const std::vector<Point>& strides) {
  std::vector<Point> corners = {0};
  for (const std::size_t d : dims) {
    const std::size_t before = corners.size();
    for (std::size_t i = 0; i < before; ++i) {
      const auto end = static_cast<Point>(slice.begin[d] + slice.shape[d]);
      corners.push_back(corners[i] + end * strides[d]);
      corners[i] += static_cast<Point>(slice.begin[d]) * strides[d];
    }
  }
  return corners;
}

// Each element of `whole` lies in an odd number of slices exactly if each point is a corner of an
// even number of rectangles, `whole` among them: a function on a grid is known from its mixed
// differences, which for the sum of rectangles, modulo 2, are the corners. Sorting finds that out
// in n log n; slices may be many.
bool covers_each_an_odd_number_of_times(const Rectangle& whole,
                                        std::span<const StoredSlice> slices) {
  std::vector<std::size_t> cut;  // dimensions: the others are the same for all
  for (std::size_t d = 0; d < whole.shape.size(); ++d) {
    const auto is_cut = [&](const StoredSlice& slice) {
      return slice.where.shape[d] != whole.shape[d];
    };
    if (std::ranges::any_of(slices, is_cut)) cut.push_back(d);
  }
  std::vector<Point> strides(whole.shape.size(), 0);
  Point stride = 1;
  for (const std::size_t d : cut) {
    strides[d] = stride;
    stride *= static_cast<Point>(whole.shape[d]) + 1;
  }
  std::vector<Point> corners = corners_of(whole, cut, strides);
  for (const StoredSlice& slice : slices) {
    if (slice.where.empty()) continue;
    for (const Point corner : corners_of(slice.where, cut, strides)) corners.push_back(corner);
  }
  std::ranges::sort(corners);
  for (std::size_t i = 0; i < corners.size(); i += 2) {
    if (i + 1 == corners.size() || corners[i] != corners[i + 1]) return false;
  }
  return true;
}

// Two slices that overlap, for an error; looks at the first ones only.
void name_overlap(const std::string& name, std::span<const StoredSlice> slices) {
  constexpr std::size_t kLooked = 2000;
  slices = slices.first(std::min(slices.size(), kLooked));
  for (std::size_t i = 0; i < slices.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      require(!slices[i].where.overlaps(slices[j].where),
              "slices {} and {} of {} overlap",
              slices[i].where,
              slices[j].where,
              quote(name));
    }
  }
}

void check_tensor(const std::string& name, const StoredTensor& tensor) {
  const Rectangle whole{std::vector<i64>(tensor.shape.size(), 0), tensor.shape};
  constexpr i64 kTooMany = i64{1} << 61;  // a tensor has 2^60 elements at most
  i64 covered = 0;
  for (const StoredSlice& slice : tensor.slices) {
    const Rectangle& where = slice.where;
    for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
      require(where.begin[d] >= 0 && where.shape[d] >= 0 &&
                  where.shape[d] <= tensor.shape[d] - where.begin[d],
              "slice {} of {} lies outside of {}",
              where,
              quote(name),
              whole);
    }
    covered = std::min(covered + where.elements(), kTooMany);
  }
  const bool once = covered == whole.elements() &&
                    (whole.empty() || covers_each_an_odd_number_of_times(whole, tensor.slices));
  if (once) return;  // an odd number of times each, and once on average
  name_overlap(name, tensor.slices);
  require(covered == whole.elements(),
          "slices of {} hold {} of its {} elements",
          quote(name),
          covered,
          whole.elements());
  fail("slices of {} overlap, or leave elements out", quote(name));
}

}  // namespace

void CheckpointIndex::check_tiling() const {
  std::unordered_map<std::string_view, i64> left;  // bytes of each file that no slice has taken yet
  for (const StoredFile& file : files) left[file.name] = file.bytes;
  for (const auto& [name, tensor] : tensors) {
    check_tensor(name, tensor);
    const i64 element = dtype_size(parse_dtype(tensor.dtype));
    for (const StoredSlice& slice : tensor.slices) {
      const auto found = left.find(slice.file);
      require(found != left.end(),
              "{} lies in {}, which is not listed",
              quote(name),
              quote(slice.file));
      const i64 elements = slice.where.elements();
      require(elements <= found->second / element,
              "{} has {} elements of {} in {}, which is not that large",
              quote(name),
              elements,
              tensor.dtype,
              quote(slice.file));
      found->second -= elements * element;
    }
  }
}

}  // namespace tessera

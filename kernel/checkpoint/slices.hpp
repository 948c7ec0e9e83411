#pragma once
#include <span>
#include <vector>

#include "kernel/checkpoint/index.hpp"
#include "tessera/mesh.hpp"
#include "tessera/parameter.hpp"

namespace tessera {

/// A rectangle of a logical tensor and where it begins in this rank's storage.
struct LocalSlice {
  Rectangle where;
  std::vector<i64> local_begin;
};

/// What this rank's storage holds of a parameter, padding left out: one rectangle for each
/// combination of runs. Of a range: the rectangles that make it up.
std::vector<LocalSlice> local_slices(const ParameterLayout& layout);
std::vector<LocalSlice> local_slices(const ParameterLayout& layout, const FlatRange& range);

inline std::vector<i64> sizes_of(const Shape& shape) { return {shape.begin(), shape.end()}; }

/// Copies a block of `shape` elements of `bytes` bytes between two dense arrays of the given sizes,
/// from `from_begin` to `to_begin`. Of the first array, `from` holds the elements from number
/// `from_first` on.
void copy_block(std::span<const std::byte> from,
                const std::vector<i64>& from_sizes,
                const std::vector<i64>& from_begin,
                std::span<std::byte> to,
                const std::vector<i64>& to_sizes,
                const std::vector<i64>& to_begin,
                const std::vector<i64>& shape,
                i64 bytes,
                i64 from_first = 0);

}  // namespace tessera

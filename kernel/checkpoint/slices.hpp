#pragma once
#include <functional>
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

/// The rectangles of a parameter that this rank's storage holds, padding left out: one for each
/// combination of runs. With a range: those that make it up.
std::vector<LocalSlice> local_slices(const ParameterLayout& layout);
std::vector<LocalSlice> local_slices(const ParameterLayout& layout, const FlatRange& range);

inline std::vector<i64> sizes_of(const Shape& shape) { return {shape.begin(), shape.end()}; }

/// Where a part of a rectangle begins, relative to the rectangle.
std::vector<i64> begin_within(const Rectangle& whole, const Rectangle& part);

/// Calls `run(first, count)` for each piece of a rectangle that lies together in a dense array of
/// the given sizes, in order; `first` and `count` are elements of the array.
void each_run(const std::vector<i64>& sizes,
              const std::vector<i64>& begin,
              const std::vector<i64>& shape,
              const std::function<void(i64 first, i64 count)>& run);

/// Copies a block of `shape` elements of `bytes` bytes between two dense arrays of the given sizes,
/// from `from_begin` to `to_begin`. `from` holds the first array from element `from_first` on.
void copy_block(std::span<const std::byte> from,
                const std::vector<i64>& from_sizes,
                const std::vector<i64>& from_begin,
                std::span<std::byte> to,
                const std::vector<i64>& to_sizes,
                const std::vector<i64>& to_begin,
                const std::vector<i64>& shape,
                i64 bytes,
                i64 from_first = 0);

/// The elements of `part` of a dense rectangle in row-major order: the bytes themselves where it is
/// the whole rectangle, else a copy in `memory`.
std::span<const std::byte> block_of(std::span<const std::byte> bytes,
                                    const Rectangle& of,
                                    const Rectangle& part,
                                    i64 element,
                                    std::vector<std::byte>& memory);

}  // namespace tessera

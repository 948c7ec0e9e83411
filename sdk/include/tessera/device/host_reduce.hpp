#pragma once
#include <algorithm>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/process_group.hpp"

namespace tessera {

/// A run of a tensor's bytes.
struct ByteRange {
  i64 begin = 0, bytes = 0;
};

/// What one of `parts` parts gets of so many bytes: whole cache lines, so that no two write to the
/// same one. The last ones get less where that does not come out even, or nothing.
constexpr ByteRange slice_of(i64 bytes, i64 parts, i64 part) {
  constexpr i64 kLine = 64;
  const i64 step = (bytes + parts * kLine - 1) / (parts * kLine) * kLine;
  const i64 begin = std::min(part * step, bytes);
  return {begin, std::min(begin + step, bytes) - begin};
}

/// targets[all][i] = sources[0][i] op sources[1][i] op … in this order, for each of `elements`
/// elements; 16-bit floats are summed in fp32 and rounded once. A target may be a source. Throws
/// Error for a sum of booleans. Same bits however the work is cut. For communicators that reduce
/// on the CPU.
TESSERA_API void reduce_elements(DType dtype,
                                 ReduceOp op,
                                 const std::vector<const void*>& sources,
                                 const std::vector<void*>& targets,
                                 i64 elements);

}  // namespace tessera

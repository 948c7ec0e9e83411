#pragma once
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/process_group.hpp"

namespace tessera {

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

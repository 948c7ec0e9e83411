#pragma once
#include <vector>

#include "kernel/model/model_parts.hpp"
#include "kernel/schedule/lower.hpp"
#include "tessera/base/parameter_memory.hpp"

namespace tessera {

/// What a plan of training has to know of the buckets of `memory`, which is laid out over
/// `parameters`: whose backward adds to each, and over which axes its replicas are summed.
BucketUse bucket_use_of(const ParameterMemory& memory,
                        const std::vector<ModelParts::Entry>& parameters);

}  // namespace tessera

#pragma once
#include "tessera/base/parameter_memory.hpp"

namespace tessera {

/// What a rank has of a parameter's main values: all of them, or those of its shard, where main
/// values are memory of their own and buckets are cut.
struct OwnedValues {
  FlatRange range;  ///< of the parameter's storage; of length 0 where the shard has none of it
  Tensor values;    ///< [range.length]
};
OwnedValues owned_values(const ParameterMemory& memory, const Parameter& parameter);

}  // namespace tessera

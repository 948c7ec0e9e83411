#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tessera/optimizer.hpp"
#include "tessera/parameter.hpp"
#include "tessera/tensor.hpp"

namespace tessera {

using HostBytes = std::vector<std::byte>;

/// A logical tensor as this rank holds it: a parameter's main values, optimizer state or a buffer.
/// Its name is the same under every layout.
struct CheckpointTensor {
  std::string name;  ///< "layers.0.mlp.up.weight", "layers.0.mlp.up.weight/first_moment"
  const LogicalTensor* of = nullptr;
  FlatRange range;  ///< of its storage: all of it, or a part that other ranks complete
  Tensor tensor;    ///< [range.length]
  StateHolders holders = StateHolders::every_replica;
  std::shared_ptr<const LogicalTensor> own = {};  ///< `of`, where nobody else keeps it
};

}  // namespace tessera

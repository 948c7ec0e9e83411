#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "kernel/checkpoint/index.hpp"

namespace tessera {

/// A tensor that two checkpoints hold differently.
struct TensorDifference {
  std::string name;
  std::string shapes;  ///< "fp32 [4, 6] and fp32 [4, 8]" where they cannot be compared; or empty
  i64 elements = 0;    ///< of the tensor
  i64 differing = 0;   ///< those that have other values or, of one dtype, other bits
  double most = 0;     ///< largest difference; infinite where one of two is not finite
};

/// How the checkpoint B differs from A.
struct CheckpointComparison {
  /// What the indices say otherwise, but for the configuration: "step: 3 and 6".
  std::vector<std::string> counts;
  i64 equal = 0;  ///< tensors that are equal bit for bit, or in value where the dtypes differ
  std::vector<TensorDifference> differing;
  std::vector<std::string> missing, extra;  ///< only in A; only in B
  bool same() const {
    return counts.empty() && differing.empty() && missing.empty() && extra.empty();
  }
};

/// Reads and checks both, however they are cut into files. Throws Error when one is damaged.
CheckpointComparison compare_checkpoints(const std::filesystem::path& a,
                                         const std::filesystem::path& b);

}  // namespace tessera

#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "kernel/checkpoint/index.hpp"

namespace tessera {

/// A tensor that two checkpoints hold differently.
struct TensorDifference {
  std::string name;
  std::string shapes;    ///< "fp32 [4, 6] and fp32 [4, 8]" where they cannot be compared; or empty
  i64 elements = 0;      ///< of the tensor
  i64 differing = 0;     ///< elements with other values or, in one dtype, other bits
  double most = 0;       ///< largest difference; infinite where one of two is not finite
  double magnitude = 0;  ///< largest finite one in either checkpoint
  /// Largest difference against the magnitude.
  double relative() const { return most > 0 ? most / magnitude : 0; }
};

/// How the checkpoint B differs from A.
struct CheckpointComparison {
  /// How the indices differ, except in the configuration and a mean of losses within the tolerance:
  /// "step: 3 and 6".
  std::vector<std::string> counts;
  i64 equal = 0;  ///< tensors that are equal bit for bit, or in value where the dtypes differ
  std::vector<TensorDifference> within, differing;  ///< the tolerance; others
  std::vector<std::string> missing, extra;          ///< only in A; only in B
  /// The comparable tensor with the largest difference; nullptr: none differs.
  const TensorDifference* largest() const;
  /// Is everything equal or within the tolerance?
  bool same() const {
    return counts.empty() && differing.empty() && missing.empty() && extra.empty();
  }
};

/// Reads and checks both, however they are cut into files. A tensor is within the tolerance where
/// no element differs by more than `tolerance` times the tensor's magnitude; so is the mean of the
/// losses. Throws Error when one is damaged.
CheckpointComparison compare_checkpoints(const std::filesystem::path& a,
                                         const std::filesystem::path& b,
                                         double tolerance = 0);

}  // namespace tessera

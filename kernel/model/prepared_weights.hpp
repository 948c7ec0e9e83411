#pragma once
#include <vector>

#include "tessera/base/parameter_memory.hpp"
#include "tessera/context.hpp"
#include "tessera/operation.hpp"
#include "tessera/ops/matmul.hpp"

namespace tessera {

/// The prepared forms of one rank's weights, bucket by bucket: what the device packs of the compute
/// values, so that products need not. They lie at fixed addresses, where graphs read them.
///
/// Whoever changes parameters calls changed(); whoever is about to read them packs what is old. In
/// a training step that is the plan's Prepare of each bucket, elsewhere prepare_all().
class PreparedWeights {
 public:
  /// An empty set.
  PreparedWeights() = default;
  /// Allocates the forms of the parameters that linear layers multiply by, as far as the device has
  /// any: for forward products and, unless these are all, for input gradients. All are old. The
  /// parameters, with their compute values, outlive it.
  PreparedWeights(const ParameterMemory& memory, Device& device, bool forward_only);

  /// Which buckets have forms, for plans; empty: none has.
  std::vector<bool> buckets() const;
  /// Call when compute values have changed: all forms are old then.
  void changed() { old_.assign(forms_.size(), true); }
  /// Packs a bucket on the context's stream, if it is old.
  void prepare(Context& cx, int bucket);
  void prepare_all(Context& cx);

 private:
  Operation<PackWeightArgs> pack_;
  std::vector<std::vector<PackWeightArgs>> forms_;  // by bucket
  std::vector<bool> old_;
};

}  // namespace tessera

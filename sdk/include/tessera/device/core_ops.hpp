#pragma once
#include "tessera/operation.hpp"
#include "tessera/ops/attention.hpp"
#include "tessera/ops/cross_entropy.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/embedding.hpp"
#include "tessera/ops/matmul.hpp"
#include "tessera/ops/moe.hpp"
#include "tessera/ops/norm.hpp"
#include "tessera/ops/rotary.hpp"
#include "tessera/ops/router.hpp"
#include "tessera/ops/update.hpp"

namespace tessera {

/// The operations that Tessera itself runs. Devices, handles and the conformance kit iterate this
/// list; one that is added here needs a kernel on `reference` and `cpu` and a case in
/// sdk/testing/cases, and does not build or pass its tests without.
using CoreOperations = OperationList<MatmulArgs,
                                     LinearWeightArgs,
                                     ColumnSumArgs,
                                     AddBiasArgs,
                                     LayerNormArgs,
                                     LayerNormBackwardArgs,
                                     LayerNormBackwardAddArgs,
                                     LayerNormWeightArgs,
                                     AddArgs,
                                     MultiplyArgs,
                                     ScaleArgs,
                                     GeluArgs,
                                     GeluBackwardArgs,
                                     GeluErfArgs,
                                     GeluErfBackwardArgs,
                                     DropoutArgs,
                                     FillArgs,
                                     CopyArgs,
                                     EmbeddingArgs,
                                     EmbeddingWeightArgs,
                                     RotaryArgs,
                                     AttentionArgs,
                                     AttentionMergeArgs,
                                     AttentionBackwardArgs,
                                     CrossEntropyMaxArgs,
                                     CrossEntropySumsArgs,
                                     CrossEntropyLossArgs,
                                     CrossEntropyGradArgs,
                                     WholeCrossEntropyArgs,
                                     TopkExpertsArgs,
                                     RouterWeightsArgs,
                                     RouterWeightsBackwardArgs,
                                     BalanceLossArgs,
                                     BalanceGradArgs,
                                     ZLossArgs,
                                     ZLossGradArgs,
                                     ExpertChoiceArgs,
                                     ExpertBiasArgs,
                                     JitterArgs,
                                     ExpertCountsArgs,
                                     SortByExpertArgs,
                                     KeepChoicesArgs,
                                     PadOrderArgs,
                                     InvertOrderArgs,
                                     PermuteRowsArgs,
                                     UnpermuteRowsArgs,
                                     GroupedMatmulArgs,
                                     GroupedWeightArgs,
                                     WeightedActivationArgs,
                                     WeightedActivationBackwardArgs,
                                     ReciprocalArgs,
                                     MaximumArgs,
                                     SumSquaresArgs,
                                     BlockSquaresArgs,
                                     SumBlocksArgs,
                                     StepScalarsArgs,
                                     AdamWArgs,
                                     SgdArgs,
                                     TanhArgs,
                                     TanhBackwardArgs>;

/// Operations whose kernels every device of CPU memory has from HostDevice.
using HostOperations = OperationList<FillArgs,
                                     CopyArgs,
                                     ExpertCountsArgs,
                                     SortByExpertArgs,
                                     KeepChoicesArgs,
                                     PadOrderArgs,
                                     InvertOrderArgs,
                                     PermuteRowsArgs,
                                     ExpertChoiceArgs,
                                     ExpertBiasArgs,
                                     JitterArgs,
                                     ReciprocalArgs,
                                     MaximumArgs,
                                     SumBlocksArgs,
                                     StepScalarsArgs>;

/// Handles to the core operations on one device, resolved by name once. A device that lacks one is
/// an error only where it is launched.
class CoreOps {
 public:
  explicit CoreOps(const Device& device) : handles_(device) {}
  template <class Args>
  const Operation<Args>& of() const {
    static_assert(CoreOperations::contains<Args>, "no core operation: run it by a handle of yours");
    return handles_.of<Args>();
  }

 private:
  OperationHandles<CoreOperations> handles_;
};

}  // namespace tessera

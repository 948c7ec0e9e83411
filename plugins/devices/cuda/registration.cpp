#include "registration.hpp"

#include "cuda_stream.hpp"
#include "kernels.hpp"
#include "tessera/core_ops.hpp"

namespace tessera::cuda {
namespace {

/// The operations that are plain kernels of this folder.
using Plain = OperationList<ColumnSumArgs,
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
                            AttentionArgs,
                            AttentionMergeArgs,
                            AttentionBackwardArgs,
                            CrossEntropyMaxArgs,
                            CrossEntropySumsArgs,
                            CrossEntropyLossArgs,
                            CrossEntropyGradArgs,
                            WholeCrossEntropyArgs,
                            ReciprocalArgs,
                            MaximumArgs,
                            SumSquaresArgs,
                            BlockSquaresArgs,
                            SumBlocksArgs,
                            StepScalarsArgs,
                            AdamWArgs,
                            SgdArgs>;

template <class Args>
Kernel plain_kernel() {
  return make_kernel<Args>(
      [](const Args& args) {
        return LaunchRequirements{.workspace_bytes = Workspace<Args>::bytes(args)};
      },
      [](const Args& args, void* workspace, Stream& stream) {
        run(args, workspace, handle(stream));
      });
}

std::vector<Kernel> kernels_with(const std::shared_ptr<Products>& products) {
  std::vector<Kernel> kernels;
  kernels.push_back(make_matmul_kernel(products));
  kernels.push_back(make_linear_weight_kernel(products));
  Plain::for_each([&]<class Args>() { kernels.push_back(plain_kernel<Args>()); });
  return kernels;
}

}  // namespace

KernelSet make_kernels(Fp32Products fp32) {
  const auto products = std::make_shared<Products>(lt::open(), fp32);
  return {kernels_with(products), products->hardware()};
}

std::vector<Kernel> planned_kernels() { return kernels_with(std::make_shared<Products>()); }

}  // namespace tessera::cuda

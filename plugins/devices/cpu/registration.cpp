#include "registration.hpp"

namespace tessera::cpu {
namespace {

// Operations whose kernels take bf16 and fp16 as well; of the rules of optimizers that is the state
// and the copy of main (below). Losses and metrics, which are added and scaled, are fp64.
using Narrow =
    CoreOperations::Without<OperationList<SumSquaresArgs, BlockSquaresArgs, CrossEntropyLossArgs>>;
template <class Args>
constexpr DTypes kTypes =
    Narrow::contains<Args> ? DTypes{DType::fp32, DType::bf16, DType::fp16} : DTypes{DType::fp32};
template <>
constexpr DTypes kTypes<AddArgs>{DType::fp32, DType::bf16, DType::fp16, DType::fp64};
template <>
constexpr DTypes kTypes<ScaleArgs> = kTypes<AddArgs>;

template <class Args>
Kernel plain_kernel(void (*run)(const Args&)) {
  if constexpr (requires(const Args& args) { args.main; }) {
    // Registers a rule of an optimizer: main and gradients are never narrow.
    return make_kernel<Args>([](const Args&) { return LaunchRequirements{}; },
                             [run](const Args& args, void*, Stream&) {
                               require(args.main.dtype == DType::fp32,
                                       "{} on the device \"cpu\" updates fp32, not {}: keep main "
                                       "parameters and gradients in fp32",
                                       Args::kName,
                                       dtype_name(args.main.dtype));
                               run(args);
                             },
                             kTypes<Args>);
  } else {
    return make_kernel<Args>(run, kTypes<Args>);
  }
}

}  // namespace

KernelSet make_kernels(const Kernels& table, const CpuConfig& config) {
  KernelSet set = make_products(table, config);
  Plain::for_each([&]<class Args>() {
    const PlainKernel<Args>& kernel = table;
    set.kernels.push_back(plain_kernel<Args>(kernel.run));
  });
  WithWorkspace::Without<Products>::for_each([&]<class Args>() {
    const WorkspaceKernel<Args>& kernel = table;
    set.kernels.push_back(make_kernel<Args>(
        [bytes = kernel.bytes](const Args& args) {
          return LaunchRequirements{.workspace_bytes = bytes(args)};
        },
        [run = kernel.run](const Args& args, void* workspace, Stream&) { run(args, workspace); },
        kTypes<Args>));
  });
  return set;
}

}  // namespace tessera::cpu

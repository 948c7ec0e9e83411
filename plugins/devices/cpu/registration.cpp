#include "registration.hpp"

namespace tessera::cpu {
namespace {

// What the kernels read addresses as. Sums of losses are fp64.
template <class Args>
constexpr DTypes kTypes{DType::fp32};
template <>
constexpr DTypes kTypes<AddArgs>{DType::fp32, DType::fp64};

}  // namespace

std::vector<Kernel> make_kernels(const Kernels& table) {
  std::vector<Kernel> kernels = {make_matmul_kernel()};
  Plain::for_each([&]<class Args>() {
    const PlainKernel<Args>& kernel = table;
    kernels.push_back(make_kernel<Args>(kernel.run, kTypes<Args>));
  });
  WithWorkspace::for_each([&]<class Args>() {
    const WorkspaceKernel<Args>& kernel = table;
    kernels.push_back(make_kernel<Args>(
        [bytes = kernel.bytes](const Args& args) {
          return LaunchRequirements{.workspace_bytes = bytes(args)};
        },
        [run = kernel.run](const Args& args, void* workspace, Stream&) { run(args, workspace); },
        kTypes<Args>));
  });
  return kernels;
}

}  // namespace tessera::cpu

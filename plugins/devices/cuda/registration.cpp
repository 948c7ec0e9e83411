#include "registration.hpp"

#include "plain_kernel.hpp"
#include "tessera/device/core_ops.hpp"

namespace tessera::cuda {
namespace {

/// The operations that are plain kernels of this folder: all but the products, which have plans.
using Plain = CoreOperations::Without<OperationList<MatmulArgs, LinearWeightArgs>>;

std::vector<Kernel> kernels_with(const std::shared_ptr<Products>& products, Fp32Products fp32) {
  std::vector<Kernel> kernels;
  kernels.push_back(make_matmul_kernel(products));
  kernels.push_back(make_linear_weight_kernel(products));
  for (Kernel& kernel : kernels) kernel.tf32 = fp32 == Fp32Products::tf32;
  Plain::for_each([&]<class Args>() { kernels.push_back(plain_kernel<Args>()); });
  return kernels;
}

}  // namespace

KernelSet make_kernels(Fp32Products fp32) {
  const auto products = std::make_shared<Products>(lt::open(), fp32);
  return {kernels_with(products, fp32), products->hardware()};
}

std::vector<Kernel> planned_kernels(Fp32Products fp32) {
  return kernels_with(std::make_shared<Products>(), fp32);
}

}  // namespace tessera::cuda

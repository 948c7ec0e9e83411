#include "tessera/plugin.hpp"
#include "cuda_device.hpp"

#ifdef TESSERA_CUDA_EMULATED
namespace tessera::cuda {
const std::string_view kDeviceName = "cuda_emulated";
void add_kernels_of_plugins(Registrar& registrar);  // tests/cuda_emulated
}  // namespace tessera::cuda
TESSERA_PLUGIN(cuda_emulated, "0.1.0", "The device cuda over a fake runtime, for tests") {
#else
namespace tessera::cuda {
const std::string_view kDeviceName = "cuda";
}
TESSERA_PLUGIN(cuda, "0.1.0", "NVIDIA GPUs: kernels of its own, products by cuBLASLt") {
#endif
  registrar.add<tessera::Device, tessera::cuda::CudaDevice>(
      tessera::cuda::kDeviceName, "NVIDIA GPUs of capability 8.0 and later");
#ifdef TESSERA_CUDA_EMULATED
  tessera::cuda::add_kernels_of_plugins(registrar);
#endif
}

#include "gpu_memory.hpp"

#include <fmt/format.h>

#include "runtime.hpp"
#include "tessera/io/size_text.hpp"

namespace tessera::cuda {

void* GpuMemory::reserve(i64 bytes) {
  void* address = nullptr;
  const cudaError_t result = cudaMalloc(&address, static_cast<std::size_t>(bytes));
  if (result == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();  // it would be told again by the next launch
    return nullptr;
  }
  check(result, "cudaMalloc");
  reserved_ += bytes;
  return address;
}

void GpuMemory::release(void* address, i64 bytes) {
  reserved_ -= bytes;
  // After a sticky error cudaFree fails too, and the one that matters has been thrown.
  if (cudaFree(address) != cudaSuccess) (void)cudaGetLastError();
}

std::string GpuMemory::limit() const {
  std::size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) return {};
  const i64 others = static_cast<i64>(total) - static_cast<i64>(free) - reserved_;
  return fmt::format(
      "{} of the GPU's {} are free, and {} are held by CUDA and other processes, which nvidia-smi "
      "names",
      size_text(static_cast<double>(free)),
      size_text(static_cast<double>(total)),
      size_text(static_cast<double>(others)));
}

}  // namespace tessera::cuda

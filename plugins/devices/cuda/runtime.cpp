#include "runtime.hpp"

#include "tessera/error.hpp"

namespace tessera::cuda {

void check(cudaError_t result, std::string_view call) {
  if (result == cudaSuccess) return;
  fail("{}: {} ({})", call, cudaGetErrorString(result), cudaGetErrorName(result));
}

}  // namespace tessera::cuda

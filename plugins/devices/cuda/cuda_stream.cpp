#include "cuda_stream.hpp"

#include <utility>

namespace tessera::cuda {

CudaStream::CudaStream(Device& device, int index, std::string name, bool urgent)
    : Stream(device, index, std::move(name)) {
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, urgent ? greatest : least),
        "cudaStreamCreateWithPriority");
}

CudaStream::~CudaStream() { (void)cudaStreamDestroy(stream_); }

}  // namespace tessera::cuda

#pragma once
#include <string>

#include "runtime.hpp"
#include "tessera/device/stream.hpp"

namespace tessera::cuda {

/// A stream that does not wait for the default stream.
class CudaStream final : public Stream {
 public:
  /// `urgent`: the GPU takes its kernels before those of others.
  CudaStream(Device& device, int index, std::string name, bool urgent);
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  void* native() override { return stream_; }
  cudaStream_t handle() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// CUDA's stream of a stream of such a device.
inline cudaStream_t handle(Stream& stream) { return static_cast<cudaStream_t>(stream.native()); }

}  // namespace tessera::cuda

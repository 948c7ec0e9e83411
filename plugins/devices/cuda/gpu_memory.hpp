#pragma once
#include "tessera/base/memory.hpp"

namespace tessera::cuda {

/// Slabs of a GPU's memory, by cudaMalloc. For the GPU that is current in the rank's thread.
class GpuMemory final : public MemorySource {
 public:
  /// What cudaMalloc maps at once: slabs are multiples of it.
  static constexpr i64 kGranularity = i64{2} << 20;

  /// `kind`: that of the device.
  explicit GpuMemory(std::string_view kind) : kind_(kind) {}
  std::string_view kind() const override { return kind_; }
  void* reserve(i64 bytes) override;
  void release(void* address, i64 bytes) override;
  /// What is free on the GPU, and what others hold of it.
  std::string limit() const override;

 private:
  std::string_view kind_;
  i64 reserved_ = 0;
};

}  // namespace tessera::cuda

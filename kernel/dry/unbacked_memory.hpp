#pragma once
#include <cstdint>

#include "tessera/base/memory.hpp"

namespace tessera {

/// Address ranges that have no memory: reserving one takes nothing, touching it faults.
class UnbackedMemory final : public MemorySource {
 public:
  void* reserve(i64 bytes) override;
  void release(void* address, i64 bytes) override;

 private:
  std::uintptr_t made_up_ = 0;  // bytes
};

}  // namespace tessera

#pragma once
#include "tessera/memory.hpp"

namespace tessera {

/// Address ranges without memory behind them: reserving takes nothing, touching faults.
class UnbackedMemory final : public MemorySource {
 public:
  void* reserve(i64 bytes) override;
  void release(void* address, i64 bytes) override;
};

}  // namespace tessera

#pragma once
#include "tessera/memory.hpp"

namespace tessera {

/// Anonymous memory of this process, in huge pages where the system has them.
class SystemMemory final : public MemorySource {
 public:
  void* reserve(i64 bytes) override;
  void release(void* address, i64 bytes) override;
};

}  // namespace tessera

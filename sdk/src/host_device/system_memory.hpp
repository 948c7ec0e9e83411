#pragma once
#include "tessera/base/api.hpp"
#include "tessera/base/memory.hpp"

namespace tessera {

/// Anonymous memory of this process, in huge pages where the system has them. Exported for its
/// tests.
class TESSERA_API SystemMemory final : public MemorySource {
 public:
  void* reserve(i64 bytes) override;
  void release(void* address, i64 bytes) override;
};

}  // namespace tessera

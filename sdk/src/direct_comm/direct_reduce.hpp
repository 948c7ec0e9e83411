#pragma once
#include "tessera/device/host_reduce.hpp"

namespace tessera {

/// memcpy on the rank's threads; nothing when both are the same.
void copy_bytes(void* to, const void* from, i64 bytes);

}  // namespace tessera

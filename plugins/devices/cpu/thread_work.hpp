#pragma once
#include "tessera/types.hpp"

namespace tessera::cpu {

/// Multiplications that are worth a thread. One with less to do, as in a generated token, takes
/// longer to wake than it saves, above all on a busy host.
constexpr i64 kThreadWork = 1 << 18;

}  // namespace tessera::cpu

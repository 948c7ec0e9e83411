#pragma once
#include <string>

#include "tessera/base/api.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// How a thread computes: rounding, denormal numbers, precision, which exceptions trap. A thread
/// inherits it from the thread that starts it. Libraries linked with -ffast-math change it while
/// they are loaded.
struct FloatingPointMode {
  u32 vectors = 0;  ///< x86-64: MXCSR without what occurred; aarch64: FPCR
  u32 x87 = 0;      ///< x86-64: the control word

  bool operator==(const FloatingPointMode&) const = default;
  TESSERA_API bool flushes_denormals() const;
};

/// The mode in which the system starts a process: to nearest, with denormal numbers, without traps.
/// All of a run computes so.
TESSERA_API FloatingPointMode standard_floating_point();
/// The mode of the calling thread; takes some nanoseconds.
TESSERA_API FloatingPointMode floating_point_mode();
TESSERA_API void set_floating_point_mode(const FloatingPointMode& mode);

/// What a change did, after a subject: "switched denormal numbers off".
TESSERA_API std::string floating_point_change(const FloatingPointMode& before,
                                              const FloatingPointMode& after);

}  // namespace tessera

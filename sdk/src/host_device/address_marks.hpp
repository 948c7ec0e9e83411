#pragma once
#include "tessera/types.hpp"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace tessera {

/// Tells ASan what of a pool's memory may be touched; nothing in other builds.
inline void mark_usable([[maybe_unused]] void* address, [[maybe_unused]] i64 bytes) {
#ifdef __SANITIZE_ADDRESS__
  ASAN_UNPOISON_MEMORY_REGION(address, static_cast<std::size_t>(bytes));
#endif
}

inline void mark_unusable([[maybe_unused]] void* address, [[maybe_unused]] i64 bytes) {
#ifdef __SANITIZE_ADDRESS__
  ASAN_POISON_MEMORY_REGION(address, static_cast<std::size_t>(bytes));
#endif
}

}  // namespace tessera

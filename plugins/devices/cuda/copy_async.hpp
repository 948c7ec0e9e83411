#pragma once
// Copies of 16 bytes from memory to shared memory that pass by the registers: a thread goes on
// while they are on their way. It gathers them in groups, and waits for the first groups of its
// own; for those of other threads it takes a barrier after that.
#include "gpu.hpp"

namespace tessera::cuda {

/// Begins to copy `bytes` (0 to 16) to shared memory; the other ones of 16 become 0, and are not
/// read. Both addresses are multiples of 16, also where nothing is read.
__device__ __forceinline__ void copy_async(void* to, const void* from, int bytes) {
#ifdef __CUDACC__
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(address), "l"(__cvta_generic_to_global(from)), "r"(bytes)
               : "memory");
#else
  emulated::copy_async(to, from, bytes);
#endif
}

/// Ends a group: of the thread's copies since the last one, which may be none.
__device__ __forceinline__ void commit_copies() {
#ifdef __CUDACC__
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  emulated::commit_copies();
#endif
}

/// Waits until at most so many groups of the thread, the last ones, are on their way.
template <int kAllBut>
__device__ __forceinline__ void wait_for_copies() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_group %0;" ::"n"(kAllBut) : "memory");
#else
  emulated::wait_for_copies(kAllBut);
#endif
}

}  // namespace tessera::cuda

#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

#include "cuda_runtime.h"
#include "tessera/device/small_floats.hpp"
#include "tessera/types.hpp"

// CUDA's words for functions, which mean nothing here.
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

// CUDA's names for where a thread is. They change when another thread of a block goes on.
inline thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace tessera::cuda::emulated {

struct Grid {
  i64 blocks = 1, rows = 1;
  int threads = 32;
  i64 shared_bytes = 0;
};

/// Runs `thread` for each thread of each block, in an order that TESSERA_EMULATED_SEED decides.
/// The threads of a block are fibers of the calling thread: each runs until it ends or waits for
/// others. Shared memory begins as NaN. Empty, or what is wrong with the kernel: a barrier or
/// shuffle that not all reach.
std::string run_grid(const Grid& grid, const std::function<void()>& thread);

/// Enqueues a grid: launch() of gpu.hpp. cudaErrorInvalidConfiguration where a GPU could not run
/// it: threads that are no multiple of 32 or over 1024, rows over 65,535, more shared memory than
/// a block has at its capability.
cudaError_t launch(cudaStream_t stream, const Grid& grid, std::function<void()> thread);

/// The block's shared memory; an error of the kernel where it has less than `bytes`.
void* shared_memory(std::size_t bytes);

/// Waits until all threads of the block are here.
void block_barrier();
/// What the lanes of a warp wait in: all of them in the same.
enum class Together { shuffle, product, matrices };
/// Bytes between what two lanes give each other: fragments of a product as floats.
inline constexpr std::size_t kLaneBytes = 48;
/// Waits until all lanes of the warp are here; `bytes` (at most kLaneBytes) of each, by lane,
/// kLaneBytes apart.
const std::byte* warp_exchange(const void* value,
                               std::size_t bytes,
                               Together what = Together::shuffle);
/// Waits as block_barrier(). Does it hold for any thread?
bool block_any(bool holds);

/// sums += a · b of a warp: mma() of tensor_cores.hpp, with the fragments' values one by one.
void multiply_add(float (&sums)[4], const float (&a)[8], const float (&b)[4]);

/// copy_async() of copy_async.hpp: 16 bytes to shared memory, `bytes` of them read, the others 0.
/// They are NaN until the thread waits for the group of which they are.
void copy_async(void* to, const void* from, int bytes);
/// Ends the thread's group of copies, and waits until all but so many of the last ones are there.
void commit_copies();
void wait_for_copies(int all_but);

/// A mistake in all kernels, by TESSERA_EMULATED_PLANTED: what tests kernels must find it.
enum class Planted {
  none,
  wait,      ///< a thread's first wait for copies does not wait
  fragment,  ///< the two words of a fragment b are exchanged
};
/// That of the grid that runs.
Planted planted();

/// Ends the block with this error of the kernel.
[[noreturn]] void kernel_error(std::string text);

template <class T>
T lane_value(const std::byte* values, int lane) {
  T value;
  std::memcpy(&value, values + kLaneBytes * static_cast<std::size_t>(lane), sizeof(T));
  return value;
}
inline int lane() { return static_cast<int>(threadIdx.x % 32); }
inline void require_all_lanes(unsigned mask) {
  if (mask != 0xffffffffU) kernel_error("a shuffle or vote of not all lanes");
}

}  // namespace tessera::cuda::emulated

inline void __syncthreads() { tessera::cuda::emulated::block_barrier(); }
inline int __syncthreads_or(int predicate) {
  return tessera::cuda::emulated::block_any(predicate != 0);
}
inline void __syncwarp(unsigned mask = 0xffffffffU) {
  tessera::cuda::emulated::require_all_lanes(mask);
  const int none = 0;
  tessera::cuda::emulated::warp_exchange(&none, sizeof none);
}

template <class T>
T __shfl_sync(unsigned mask, T value, int source) {
  namespace emulated = tessera::cuda::emulated;
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  emulated::require_all_lanes(mask);
  return emulated::lane_value<T>(emulated::warp_exchange(&value, sizeof value), source & 31);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int distance) {
  return __shfl_sync(mask, value, tessera::cuda::emulated::lane() ^ distance);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance) {
  const int lane = tessera::cuda::emulated::lane(), source = lane - static_cast<int>(distance);
  return __shfl_sync(mask, value, source < 0 ? lane : source);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance) {
  const int lane = tessera::cuda::emulated::lane(), source = lane + static_cast<int>(distance);
  return __shfl_sync(mask, value, source > 31 ? lane : source);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  namespace emulated = tessera::cuda::emulated;
  emulated::require_all_lanes(mask);
  const int holds = predicate != 0;
  const std::byte* values = emulated::warp_exchange(&holds, sizeof holds);
  unsigned bits = 0;
  for (int lane = 0; lane < 32; ++lane) {
    bits |= static_cast<unsigned>(emulated::lane_value<int>(values, lane)) << lane;
  }
  return bits;
}
inline int __ffs(int bits) {
  return bits == 0 ? 0 : std::countr_zero(static_cast<unsigned>(bits)) + 1;
}
inline int __popc(unsigned bits) { return std::popcount(bits); }
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate) == 0xffffffffU;
}

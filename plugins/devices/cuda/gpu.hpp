#pragma once
// What kernels are written with. nvcc compiles them for GPUs; g++ compiles the same sources for the
// emulator of tests/cuda_emulated, which runs the threads of a block as fibers. So a source uses
// what is here and CUDA's names for indices, barriers (__syncthreads, __syncwarp) and shuffles
// (__shfl_sync, __shfl_up_sync, __shfl_down_sync, __shfl_xor_sync), votes (__any_sync, __all_sync,
// __ballot_sync, __syncthreads_or), and no other part of CUDA. Blocks have a multiple of 32
// threads, and all lanes of a warp take part in a shuffle or vote.
//
// In a kernel, functions of std are those that tests/lint/kernels.py knows. Others may be wrong
// without a word: nvcc 13.0 compiles std::countr_zero to the constant 32 and std::bit_width to 0,
// since it has no such builtins of g++ and takes the lines after them for unreachable.
#include <cmath>
#include <limits>
#include <string_view>
#include <type_traits>
#include <unordered_map>

#include "runtime.hpp"
#include "tessera/error.hpp"
#include "tessera/tensor.hpp"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#else
#include <emulated_gpu.hpp>  // of tests/cuda_emulated
#endif

namespace tessera::cuda {

/// Threads of a warp, and the mask of all of them.
inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffU;
/// How many multiprocessors to fill: those of an H100. Never those of the GPU that is there: this
/// number cuts sums into parts, and bits must not depend on the GPU.
inline constexpr i64 kMultiprocessors = 132;

/// How many blocks, of how many threads each, and the bytes of a block's shared<T>().
struct LaunchShape {
  i64 blocks = 1;  ///< blockIdx.x
  i64 rows = 1;    ///< blockIdx.y, at most 65,535
  int threads = 256;
  i64 shared_bytes = 0;
};

/// Blocks of `each` elements that hold `elements`.
constexpr i64 blocks_for(i64 elements, i64 each) { return (elements + each - 1) / each; }

/// Asks for the shared memory of a block where that is more than it has without asking; once for
/// each kernel, since it is a call of the driver. An Error where the GPU has less.
inline void allow_shared_memory(const void* kernel, i64 bytes) {
  constexpr i64 kWithoutAsking = 48 * 1024;
  if (bytes <= kWithoutAsking) return;
  thread_local std::unordered_map<const void*, i64> allowed;  // by the rank's thread, for its GPU
  i64& most = allowed[kernel];
  if (bytes <= most) return;
  int gpu = 0, has = 0;
  check(cudaGetDevice(&gpu), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&has, cudaDevAttrMaxSharedMemoryPerBlockOptin, gpu),
        "cudaDeviceGetAttribute");
  require(bytes <= has,
          "a block of this kernel takes {} bytes of shared memory, and this GPU has {}; smaller "
          "heads, fewer experts and dtypes of 16 bits take less, and GPUs of capability 8.0, 9.0 "
          "and 10.0 have more",
          bytes,
          has);
  check(cudaFuncSetAttribute(
            kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
        "cudaFuncSetAttribute");
  most = bytes;
}

#ifdef __CUDACC__

using Half = __half;
using BFloat = __nv_bfloat16;

/// The block's dynamic shared memory, as one struct or array. Its values are not initialised.
template <class T>
__device__ T& shared() {
  extern __shared__ __align__(16) unsigned char tessera_shared_memory[];
  return *reinterpret_cast<T*>(tessera_shared_memory);
}

/// Enqueues a kernel. Nothing happens where it has no blocks.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...),
            const LaunchShape& shape,
            cudaStream_t stream,
            const Arguments&... arguments) {
  if (shape.blocks == 0 || shape.rows == 0) return;
  allow_shared_memory(reinterpret_cast<const void*>(kernel), shape.shared_bytes);
  kernel<<<dim3(static_cast<unsigned>(shape.blocks), static_cast<unsigned>(shape.rows)),
           dim3(static_cast<unsigned>(shape.threads)),
           static_cast<std::size_t>(shape.shared_bytes),
           stream>>>(static_cast<Parameters>(arguments)...);
  check(cudaGetLastError(), "launch of a kernel");
}

#else

using Half = Float16;
using BFloat = BFloat16;

template <class T>
T& shared() {
  return *static_cast<T*>(emulated::shared_memory(sizeof(T)));
}

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...),
            const LaunchShape& shape,
            cudaStream_t stream,
            const Arguments&... arguments) {
  if (shape.blocks == 0 || shape.rows == 0) return;
  allow_shared_memory(reinterpret_cast<const void*>(kernel), shape.shared_bytes);
  emulated::Grid grid{.blocks = shape.blocks,
                      .rows = shape.rows,
                      .threads = shape.threads,
                      .shared_bytes = shape.shared_bytes};
  (void)emulated::launch(stream, grid, [kernel, ... values = static_cast<Parameters>(arguments)] {
    kernel(values...);
  });
  check(cudaGetLastError(), "launch of a kernel");
}

#endif

/// The type in which values of T are computed: double for double, else float.
template <class T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// A value as it is computed with, and as it is stored, rounded once.
template <class T>
__device__ __forceinline__ Compute<T> widen(T value) {
#ifdef __CUDACC__
  if constexpr (std::is_same_v<T, Half>) {
    return __half2float(value);
  } else if constexpr (std::is_same_v<T, BFloat>) {
    return __bfloat162float(value);
  } else {
    return value;
  }
#else
  return static_cast<Compute<T>>(value);
#endif
}
template <class T>
__device__ __forceinline__ T narrow(double value) {
#ifdef __CUDACC__
  if constexpr (std::is_same_v<T, Half>) {
    return __double2half(value);
  } else if constexpr (std::is_same_v<T, BFloat>) {
    return __double2bfloat16(value);
  } else {
    return static_cast<T>(value);
  }
#else
  return static_cast<T>(value);
#endif
}
template <class T>
__device__ __forceinline__ T narrow(float value) {
#ifdef __CUDACC__
  if constexpr (std::is_same_v<T, Half>) {
    return __float2half_rn(value);
  } else if constexpr (std::is_same_v<T, BFloat>) {
    return __float2bfloat16_rn(value);
  } else {
    return static_cast<T>(value);
  }
#else
  return static_cast<T>(value);
#endif
}

/// Calls f with a value of the C++ type of a dtype of 16 bits, or of 32 and 64, or of any floating
/// one: `[&]<class T>(T) { … }`.
template <class F>
void with_narrow(DType dtype, F&& f) {
  dtype == DType::fp16 ? f(Half{}) : f(BFloat{});
}
template <class F>
void with_wide(DType dtype, F&& f) {
  dtype == DType::fp64 ? f(double{}) : f(float{});
}
template <class F>
void with_floating(std::string_view operation, DType dtype, F&& f) {
  switch (dtype) {
    case DType::fp64:
    case DType::fp32:
      return with_wide(dtype, f);
    case DType::fp16:
    case DType::bf16:
      return with_narrow(dtype, f);
    default:
      fail("{} has no values of {}", operation, dtype_name(dtype));
  }
}

/// Calls f with a value of the type in which gradients of T are summed: T, or float where `dtype`
/// is fp32.
template <class T, class F>
void with_accumulator(DType dtype, F&& f) {
  if constexpr (sizeof(T) < sizeof(float)) {
    if (dtype == DType::fp32) return f(float{});
  }
  f(T{});
}

/// The lowest of the lanes that a vote names, at least one, and how many it names.
__device__ __forceinline__ int first_of(unsigned lanes) {
  return __ffs(static_cast<int>(lanes)) - 1;
}
__device__ __forceinline__ int count_of(unsigned lanes) { return __popc(lanes); }

/// The sum, or the largest, over a warp: the same in all lanes, in a fixed order.
template <class T>
__device__ __forceinline__ T warp_sum(T value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}
template <class T>
__device__ __forceinline__ T warp_max(T value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const T other = __shfl_xor_sync(kAllLanes, value, distance);
    // Not a comparison the other way: it would lose a value that is not a number.
    value = other > value || other != other ? other : value;
  }
  return value;
}

/// The same over a block, of at most 1,024 threads; `partial` is shared memory for one value of
/// each warp, which the next call may use again.
template <class T, class Join>
__device__ __forceinline__ T block_reduce(T value, T* partial, T none, Join join) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  value = join(value);
  if (lane == 0) partial[warp] = value;
  __syncthreads();
  value = join(lane < warps ? T(partial[lane]) : none);
  __syncthreads();
  return value;
}
template <class T>
__device__ __forceinline__ T block_sum(T value, T* partial) {
  return block_reduce(value, partial, T(0), [](T v) { return warp_sum(v); });
}
template <class T>
__device__ __forceinline__ T block_max(T value, T* partial) {
  return block_reduce(
      value, partial, -std::numeric_limits<T>::infinity(), [](T v) { return warp_max(v); });
}

}  // namespace tessera::cuda

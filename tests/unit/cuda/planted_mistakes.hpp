#pragma once
// Small kernels, each right, and with one mistake. Tests of the emulator: it must find them.
#include <cstddef>

#include "plugins/devices/cuda/copy_async.hpp"
#include "plugins/devices/cuda/tensor_tiles.hpp"

namespace tessera {
namespace planted_mistakes {

using cuda::kAllLanes;
using cuda::kWarp;
using cuda::shared;

inline constexpr int kThreads = 128;

struct alignas(16) Line {
  float of[kThreads];
};

/// out = the sum of 128 numbers. Mistake: no barrier before the last of the warps' steps.
template <bool kPlanted>
__global__ void sum_block(const float* in, float* out) {
  float* values = shared<Line>().of;
  const int i = static_cast<int>(threadIdx.x);
  values[i] = in[i];
  for (int distance = kThreads / 2; distance > 0; distance /= 2) {
    if (!kPlanted || distance != kWarp) __syncthreads();
    if (i < distance) values[i] += values[i + distance];
  }
  if (i == 0) *out = values[0];
}

/// out = in, the lanes of each warp the other way round. Mistake: no __syncwarp between.
template <bool kPlanted>
__global__ void reverse_warps(const float* in, float* out) {
  float* values = shared<Line>().of;
  const int i = static_cast<int>(threadIdx.x);
  values[i] = in[i];
  if (!kPlanted) __syncwarp();
  out[i] = values[i ^ (kWarp - 1)];
}

/// out [16, 16] = a [16, 16] · b [16, 16]. Mistake: rows and columns of b are exchanged.
struct alignas(16) Factors {
  static constexpr int kStride = cuda::tensor_tiles::stride_of(16);
  BFloat16 a[16 * kStride], b[16 * kStride];
};
template <bool kPlanted>
__global__ void multiply(const BFloat16* a, const BFloat16* b, float* out) {
  namespace tiles = cuda::tensor_tiles;
  auto& memory = shared<Factors>();
  for (int n = tiles::lane(); n < 256; n += kWarp) {
    memory.a[n / 16 * Factors::kStride + n % 16] = a[n];
    memory.b[n / 16 * Factors::kStride + n % 16] = b[n];
  }
  __syncwarp();
  u32 left[4], right[4];
  tiles::load_a<true, Factors::kStride>(left, memory.a);
  tiles::load_b<kPlanted, Factors::kStride>(right, memory.b);
  float sums[2][4] = {};
  tiles::multiply<BFloat16>(sums, left, right);
  for (int h = 0; h < 2; ++h) {
    for (int c = 0; c < 4; ++c) {
      const int row = tiles::fragment_row() + c / 2 * 8;
      out[row * 16 + h * 8 + tiles::fragment_column() + c % 2] = sums[h][c];
    }
  }
}

/// out = the last of `rows` rows. Mistake: an index of 32 bits.
template <bool kPlanted>
__global__ void last_row(const float* in, i64 rows, i64 stride, float* out) {
  const i64 index = (rows - 1) * stride + threadIdx.x;
  out[threadIdx.x] = in[kPlanted ? static_cast<i64>(static_cast<std::int32_t>(index)) : index];
}

__global__ inline void fill(float* out, float value) { out[threadIdx.x] = value; }
__global__ inline void copy(const float* in, float* out) { out[threadIdx.x] = in[threadIdx.x]; }

/// out = in + 1, of two tiles. Mistake: the second group of copies is not waited for.
template <bool kPlanted>
__global__ void add_one(const float* in, float* out) {
  float* tiles = shared<Line>().of;
  float* tile = tiles + threadIdx.x * 4;
  for (int n = 0; n < 2; ++n) {
    if (threadIdx.x < 16) cuda::copy_async(tile + n * 64, in + n * 64 + threadIdx.x * 4, 16);
    cuda::commit_copies();
  }
  for (int n = 0; n < 2; ++n) {
    if (n == 0 || kPlanted) {
      cuda::wait_for_copies<1>();
    } else {
      cuda::wait_for_copies<0>();
    }
    __syncthreads();
    const int i = n * 64 + static_cast<int>(threadIdx.x);
    if (threadIdx.x < 64) out[i] = tiles[i] + 1;
  }
  cuda::wait_for_copies<0>();
}

/// out = the sums of tiles of 64. Mistake: no barrier before a tile is overwritten by the next.
template <bool kPlanted>
__global__ void sum_tiles(const float* in, float* out, int count) {
  float* tile = shared<Line>().of;
  float sum = 0;
  for (int n = 0; n < count; ++n) {
    if (!kPlanted) __syncthreads();
    if (threadIdx.x < 16) {
      cuda::copy_async(tile + threadIdx.x * 4, in + n * 64 + threadIdx.x * 4, 16);
    }
    cuda::commit_copies();
    cuda::wait_for_copies<0>();
    __syncthreads();
    for (int i = 0; i < 64; ++i) sum += tile[i];
  }
  out[threadIdx.x] = sum;
}

/// out = the sums of warps. Mistake: lanes without a number do not shuffle.
template <bool kPlanted>
__global__ void sum_warps(const float* in, float* out, int count) {
  const int i = static_cast<int>(threadIdx.x);
  float value = i < count ? in[i] : 0;
  if (!kPlanted || i < count) value = cuda::warp_sum(value);
  if (i % kWarp == 0) out[i / kWarp] = value;
}

/// out = the largest number. Mistake: the threads with the last numbers meet no barrier.
template <bool kPlanted>
__global__ void largest(const float* in, float* out, int count) {
  const int i = static_cast<int>(threadIdx.x);
  if (kPlanted && i >= count) return;
  const float value = cuda::block_max(i < count ? in[i] : in[0], shared<Line>().of);
  if (i == 0) *out = value;
}

/// out = how often each of 8 digits occurs. Mistake: the counts do not begin at 0.
template <bool kPlanted>
__global__ void count_digits(const int* digits, float* out) {
  float* counts = shared<Line>().of;
  const int i = static_cast<int>(threadIdx.x);
  if (!kPlanted && i < 8) counts[i] = 0;
  __syncthreads();
  if (i == 0) {
    for (int n = 0; n < kThreads; ++n) counts[digits[n]] += 1;
  }
  __syncthreads();
  if (i < 8) out[i] = counts[i];
}

/// Each block hands its number to a sum: by its place in `parts`. Mistake: it adds to `out`, in the
/// order in which blocks come, as atomicAdd does.
template <bool kPlanted>
__global__ void add_blocks(const float* in, float* parts, float* out) {
  if (threadIdx.x != 0) return;
  if (kPlanted) {
    *out += in[blockIdx.x];
  } else {
    parts[blockIdx.x] = in[blockIdx.x];
  }
}

/// out = the place of the first number that is not 0. Mistake: all threads that find one write it
/// to the same word.
template <bool kPlanted>
__global__ void first_found(const float* in, float* out) {
  float* place = shared<Line>().of;
  const int i = static_cast<int>(threadIdx.x);
  const bool found = in[i] != 0;
  if (kPlanted) {
    if (found) *place = static_cast<float>(i);
    __syncthreads();
    if (i == 0) *out = *place;
  } else {
    const float least =
        -cuda::block_max(found ? static_cast<float>(-i) : -1000.0F, shared<Line>().of);
    if (i == 0) *out = least;
  }
}

/// out = in + 1 in rows of `width`, whose ends are not a multiple of a block. Mistake: no end.
template <bool kPlanted>
__global__ void add_one_to_rows(const float* in, float* out, int width) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (kPlanted || i < width) out[i] = in[i] + 1;
}

}  // namespace planted_mistakes
}  // namespace tessera

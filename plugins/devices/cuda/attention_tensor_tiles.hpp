#pragma once
// Tiles of attention on tensor cores, in the shape of FlashAttention-2 (Dao 2023, §3). A warp owns
// 16 rows (queries, or keys) while the others come past; it has their scores in registers, where
// they become fragment a of the next product.
#include "attention_call.hpp"
#include "tensor_tiles.hpp"

namespace tessera::cuda::attention {

using tensor_tiles::fragment_column;
using tensor_tiles::fragment_row;
using tensor_tiles::kPart;

/// Scores of 16 rows with some parts of columns, and sums of 16 rows: by part, then as mma has
/// them.
template <int kColumns>
using Fragments = float[kColumns / kPart][2][4];

/// Where rows lie in a tile. The four columns of a part that a lane has are neighbours where the
/// others lie in fours, its two rows where its own lie in pairs: neighbours share random words.
enum class Order { plain, fours, pairs };
template <Order kOrder>
__device__ __forceinline__ int slot(int row) {
  const int part = row / kPart * kPart, r = row % kPart;
  if constexpr (kOrder == Order::fours) return part + r % 4 / 2 * 8 + r / 4 * 2 + r % 2;
  if constexpr (kOrder == Order::pairs) return part + r % 2 * 8 + r / 2;
  return row;
}
/// The inverse for what a lane has: element (h, c) of a part.
template <Order kOrder>
__device__ __forceinline__ int column(int part, int h, int c) {
  return part * kPart +
         (kOrder == Order::fours ? fragment_column() * 2 + h * 2 : fragment_column() + h * 8) +
         c % 2;
}
template <Order kOrder>
__device__ __forceinline__ int row(int c) {
  return tensor_tiles::warp() * kPart +
         (kOrder == Order::pairs ? fragment_row() * 2 + c / 2 : fragment_row() + c / 2 * 8);
}

/// Features that are multiplied: others after the last one are 0.
constexpr int padded(int features) { return (features + kPart - 1) / kPart * kPart; }

/// Sum or largest of a row, over the lanes that have it.
__device__ __forceinline__ float quad_sum(float value) {
  value += __shfl_xor_sync(kAllLanes, value, 1);
  return value + __shfl_xor_sync(kAllLanes, value, 2);
}
__device__ __forceinline__ float quad_max(float value) {
  value = larger(value, __shfl_xor_sync(kAllLanes, value, 1));
  return larger(value, __shfl_xor_sync(kAllLanes, value, 2));
}

/// Which of a lane's scores are not dropped: bit 8p + 4h + c tells of [p][h][c]. Random words are
/// computed here, in loops, since next to the scores they would take their registers.
constexpr u32 keep_bit(int p, int h, int c) { return u32{1} << (8 * p + 4 * h + c); }
/// Rows are queries, columns keys in fours.
template <int kParts>
__device__ __forceinline__ u32
keeps_of_queries(const Call& call, i64 sample, i64 head, i64 first_query, i64 first_key) {
  static_assert(kParts <= 4);
  if (!call.drops()) return ~u32{0};
  u32 bits = 0;
  TESSERA_DO_NOT_UNROLL for (int i = 0; i < 2; ++i) {
    const i64 query = first_query + row<Order::plain>(2 * i);
    if (query >= call.queries) continue;
    Kept kept(call, sample, head, query);
    TESSERA_DO_NOT_UNROLL for (int p = 0; p < kParts; ++p) {
      TESSERA_UNROLL for (int e = 0; e < 4; ++e) {
        const int h = e / 2, c = e % 2;
        if (kept(first_key + column<Order::fours>(p, h, c))) bits |= keep_bit(p, h, 2 * i + c);
      }
    }
  }
  return bits;
}
/// Which of a lane's scores are visible, in the same bits: of rows that are queries, and below of
/// rows that are keys.
template <int kParts>
__device__ __forceinline__ u32
sees_of_queries(const Call& call, i64 sample, i64 first_query, i64 first_key) {
  static_assert(kParts <= 4);
  u32 bits = 0;
  TESSERA_DO_NOT_UNROLL for (int i = 0; i < 2; ++i) {
    const i64 query = first_query + row<Order::plain>(2 * i);
    if (query >= call.queries) continue;
    const KeyRange range = call.keys_of(sample, query);
    TESSERA_DO_NOT_UNROLL for (int p = 0; p < kParts; ++p) {
      TESSERA_UNROLL for (int e = 0; e < 4; ++e) {
        const int h = e / 2, c = e % 2;
        const i64 key = first_key + column<Order::fours>(p, h, c);
        if (key >= range.begin && key < range.end) bits |= keep_bit(p, h, 2 * i + c);
      }
    }
  }
  return bits;
}
template <int kParts>
__device__ __forceinline__ u32
sees_of_keys(const Call& call, i64 sample, i64 first_query, i64 key) {
  static_assert(kParts <= 4);
  u32 bits = 0;
  TESSERA_DO_NOT_UNROLL for (int n = 0; n < kParts * 4; ++n) {
    const int p = n / 4, h = n % 4 / 2, c = n % 2;
    const i64 query = first_query + column<Order::plain>(p, h, c);
    if (query >= call.queries) continue;
    const KeyRange range = call.keys_of(sample, query);
    TESSERA_UNROLL for (int r = 0; r < 2; ++r) {
      if (key + r >= range.begin && key + r < range.end) bits |= keep_bit(p, h, 2 * r + c);
    }
  }
  return bits;
}
/// Rows are keys in pairs, of which `key` is the lane's first; columns are queries.
template <int kParts>
__device__ __forceinline__ u32
keeps_of_keys(const Call& call, i64 sample, i64 head, i64 first_query, i64 key) {
  static_assert(kParts <= 4);
  if (!call.drops()) return ~u32{0};
  u32 bits = 0;
  TESSERA_DO_NOT_UNROLL for (int n = 0; n < kParts * 4; ++n) {
    const int p = n / 4, h = n % 4 / 2, c = n % 2;
    const i64 query = first_query + column<Order::plain>(p, h, c);
    if (query >= call.queries) continue;
    Kept kept(call, sample, head, query);
    TESSERA_UNROLL for (int r = 0; r < 2; ++r) {
      if (kept(key + r)) bits |= keep_bit(p, h, 2 * r + c);
    }
  }
  return bits;
}

/// What is done with tiles of heads of up to kFeatures features.
template <class T, int kFeatures>
struct TensorTiles {
  static constexpr int kStride = tensor_tiles::stride_of(kFeatures);
  template <int kRows>
  using Tile = T[kRows * kStride];

  /// Begins to copy positions [first, first + kRows) of a head; 0 from `end` on.
  template <Order kOrder, int kRows>
  static __device__ void fetch(
      T* to, const Positions<const T>& from, const T* head, i64 first, i64 end, int features) {
    constexpr int kEach = kPack<T>, kAcross = kFeatures / kEach;
    // Not unrolled: addresses would be kept from tile to tile, and take registers.
    TESSERA_DO_NOT_UNROLL for (int n = static_cast<int>(threadIdx.x); n < kRows * kAcross;
                               n += kThreads) {
      const int r = n / kAcross, f = n % kAcross * kEach;
      if (f >= padded(features)) continue;
      // Where there is but one position, its stride says nothing about alignment.
      const bool inside = first + r < end;
      tensor_tiles::fetch(to + slot<kOrder>(r) * kStride + f,
                          inside ? head + (first + r) * from.position + f : head,
                          inside ? features - f : 0,
                          from.aligned);
    }
  }

  /// scores = own · othersᵀ; own: the warp's rows.
  template <int kColumns>
  static __device__ __forceinline__ void multiply(float (&scores)[kColumns][2][4],
                                                  const T* own,
                                                  const T* others,
                                                  int features) {
    TESSERA_UNROLL for (int p = 0; p < kColumns; ++p) {
      TESSERA_UNROLL for (int c = 0; c < 8; ++c) scores[p][c / 4][c % 4] = 0;
    }
    // Not more at once: what is read ahead takes registers.
    TESSERA_UNROLL_TWICE for (int f = 0; f < features; f += kPart) {
      u32 a[4];
      tensor_tiles::load_a<true, kStride>(a, own + f);
      TESSERA_UNROLL for (int p = 0; p < kColumns; ++p) {
        u32 b[4];
        tensor_tiles::load_b<true, kStride>(b, others + p * kPart * kStride + f);
        tensor_tiles::multiply<T>(scores[p], a, b);
      }
    }
  }

  /// sums += weights · others, rounding the weights; others: from the first feature of the sums.
  template <int kSums, int kColumns>
  static __device__ __forceinline__ void add_products(float (&sums)[kSums][2][4],
                                                      const float (&weights)[kColumns][2][4],
                                                      const T* others,
                                                      int features) {
    TESSERA_UNROLL for (int p = 0; p < kColumns; ++p) {
      const auto& w = weights[p];
      const u32 a[] = {pack<T>(w[0][0], w[0][1]),
                       pack<T>(w[0][2], w[0][3]),
                       pack<T>(w[1][0], w[1][1]),
                       pack<T>(w[1][2], w[1][3])};
      TESSERA_UNROLL for (int n = 0; n < kSums; ++n) {
        if (n * kPart >= features) continue;
        u32 b[4];
        tensor_tiles::load_b<false, kStride>(b, others + p * kPart * kStride + n * kPart);
        tensor_tiles::multiply<T>(sums[n], a, b);
      }
    }
  }

  /// Rounds the warp's 16 rows of sums into `tile`, which nobody else uses, and stores those before
  /// `end` from there, so that whole lines go to memory. `features`: of these sums.
  template <Order kOrder, int kSums>
  static __device__ __forceinline__ void store(T* tile,
                                               const float (&sums)[kSums][2][4],
                                               const Positions<T>& positions,
                                               T* head,
                                               i64 first,
                                               i64 end,
                                               int features) {
    __syncwarp();
    TESSERA_UNROLL for (int n = 0; n < kSums; ++n) {
      TESSERA_UNROLL for (int i = 0; i < 4; ++i) {
        const int r = fragment_row() + i % 2 * 8, f = n * kPart + i / 2 * 8 + fragment_column();
        const float* two = sums[n][i / 2] + i % 2 * 2;
        *reinterpret_cast<u32*>(tile + r * kStride + f) = pack<T>(two[0], two[1]);
      }
    }
    __syncwarp();
    constexpr int kEach = kPack<T>, kAcross = kSums * kPart / kEach;
    for (int n = tensor_tiles::lane(); n < kPart * kAcross; n += kWarp) {
      const int r = n / kAcross, f = n % kAcross * kEach;
      if (f >= features || first + r >= end) continue;
      const auto eight = *reinterpret_cast<const Pack<T>*>(tile + slot<kOrder>(r) * kStride + f);
      T* to = head + (first + r) * positions.position + f;
      if (positions.aligned && features - f >= kEach) {
        *reinterpret_cast<Pack<T>*>(to) = eight;
      } else {
        TESSERA_UNROLL for (int e = 0; e < kEach; ++e) {
          if (f + e < features) to[e] = eight.of[e];
        }
      }
    }
  }
};

}  // namespace tessera::cuda::attention

#pragma once
// Tiles of attention, in plain arithmetic. A block of 128 threads keeps rows of its own in shared
// memory (queries, or keys) while the others come past, a tile at a time. Of the scores between the
// two, a thread computes kRows / 8 × kColumns / 16 in registers; a row is that of 16 lanes of one
// warp. Tiles are laid out so that a warp's accesses of 16 bytes meet no bank twice.
#include "attention_call.hpp"
#include "unroll.hpp"

namespace tessera::cuda::attention {

inline constexpr int kRowLanes = 8, kColumnLanes = 16;

/// Neighbours in shared memory, by one access of 16 bytes, or two of doubles.
template <int kCount, class T>
__device__ __forceinline__ Pack<T, kCount> packed(const T* from) {
  return *reinterpret_cast<const Pack<T, kCount>*>(from);
}

/// Where this thread's scores are.
__device__ __forceinline__ int row_lane() { return static_cast<int>(threadIdx.x) / kColumnLanes; }
__device__ __forceinline__ int column_lane() {
  return static_cast<int>(threadIdx.x) % kColumnLanes;
}
/// The thread's row i of the tile. Four rows follow each other, so that they share random words.
__device__ __forceinline__ int row(int i) { return i / 4 * 4 * kRowLanes + row_lane() * 4 + i % 4; }

/// Sum or largest over the lanes of a row.
template <class V>
__device__ __forceinline__ V row_sum(V value) {
  for (int distance = kColumnLanes / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}
template <class V>
__device__ __forceinline__ V row_max(V value) {
  for (int distance = kColumnLanes / 2; distance > 0; distance /= 2) {
    value = larger(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

/// The sizes of a block's tiles, and what it computes with them. V: the type of sums.
template <class V, int kMostFeatures, int kRows_, int kColumns_>
struct Tiles {
  static constexpr int kRows = kRows_, kColumns = kColumns_;
  static constexpr int kRowsEach = kRows / kRowLanes, kColumnsEach = kColumns / kColumnLanes;
  static constexpr int kSumsEach = kMostFeatures / kColumnLanes;
  static constexpr int kStride = kMostFeatures + 16 / static_cast<int>(sizeof(V));
  static constexpr int kWeightStride = kColumns + 4;
  static_assert(kRowsEach % 4 == 0 && kColumns % 4 == 0 && kSumsEach % 4 == 0);

  using Own = V[kRows * kStride];
  using Others = V[kColumns * kStride];
  using Weights = V[kRows * kWeightStride];
  using Scores = V[kRowsEach][kColumnsEach];
  using Sums = V[kRowsEach][kSumsEach];

  /// Where the others' row is: those of one thread are a whole turn of lanes apart.
  static __device__ __forceinline__ int slot(int other) {
    return other % kColumnsEach * kColumnLanes + other / kColumnsEach;
  }
  /// The thread's column j of the tile.
  static __device__ __forceinline__ int column(int j) { return column_lane() * kColumnsEach + j; }

  template <class T>
  static __device__ void load_own(
      Own& to, const Positions<const T>& from, const T* head, i64 first, i64 end, int features) {
    load_rows<kRows>(to, from, head, first, end, features, [](int r) { return r; });
  }
  template <class T>
  static __device__ void load_others(
      Others& to, const Positions<const T>& from, const T* head, i64 first, i64 end, int features) {
    load_rows<kColumns>(to, from, head, first, end, features, [](int r) { return slot(r); });
  }

  /// scores = own · othersᵀ
  static __device__ __forceinline__ void multiply(Scores& scores,
                                                  const Own& own,
                                                  const Others& others,
                                                  int features) {
    TESSERA_UNROLL for (int i = 0; i < kRowsEach; ++i) {
      TESSERA_UNROLL for (int j = 0; j < kColumnsEach; ++j) scores[i][j] = 0;
    }
    TESSERA_DO_NOT_UNROLL for (int f = 0; f < features; f += 4) {
      Pack<V, 4> right[kColumnsEach];
      TESSERA_UNROLL for (int j = 0; j < kColumnsEach; ++j) {
        right[j] = packed<4>(others + (j * kColumnLanes + column_lane()) * kStride + f);
      }
      TESSERA_UNROLL for (int i = 0; i < kRowsEach; ++i) {
        const Pack<V, 4> left = packed<4>(own + row(i) * kStride + f);
        TESSERA_UNROLL for (int j = 0; j < kColumnsEach; ++j) {
          TESSERA_UNROLL for (int e = 0; e < 4; ++e) scores[i][j] += left.of[e] * right[j].of[e];
        }
      }
    }
  }

  /// Hands a row's values to its other lanes.
  static __device__ __forceinline__ void store(Weights& weights, const Scores& scores) {
    __syncwarp();  // they have read the last ones
    TESSERA_UNROLL for (int i = 0; i < kRowsEach; ++i) {
      TESSERA_UNROLL for (int j = 0; j < kColumnsEach; ++j) {
        weights[row(i) * kWeightStride + column(j)] = scores[i][j];
      }
    }
    __syncwarp();
  }

  /// sums += weights · others, of those that sees(row, column) tells. `all`: which are all.
  template <class Sees>
  static __device__ __forceinline__ void add_products(
      Sums& sums, const Weights& weights, const Others& others, bool all, Sees sees) {
    if (all) {
      add_those<true>(sums, weights, others, sees);
    } else {
      add_those<false>(sums, weights, others, sees);
    }
  }

  /// The feature of sums[i][c].
  static __device__ __forceinline__ int feature(int c) {
    return c / 4 * 4 * kColumnLanes + 4 * column_lane() + c % 4;
  }
  /// One row of sums, rounded.
  template <class T>
  static __device__ __forceinline__ void store_row(T* to,
                                                   const V (&sums)[kSumsEach],
                                                   int features,
                                                   bool aligned) {
    TESSERA_UNROLL for (int c = 0; c < kSumsEach; c += 4) {
      const V four[] = {sums[c], sums[c + 1], sums[c + 2], sums[c + 3]};
      cuda::store(to + feature(c), four, features - feature(c), aligned);
    }
  }

 private:
  template <bool kAll, class Sees>
  static __device__ __forceinline__ void add_those(Sums& sums,
                                                   const Weights& weights,
                                                   const Others& others,
                                                   Sees sees) {
    TESSERA_DO_NOT_UNROLL for (int first = 0; first < kColumns; first += 4) {
      Pack<V, 4> left[kRowsEach];
      TESSERA_UNROLL for (int i = 0; i < kRowsEach; ++i) {
        left[i] = packed<4>(weights + row(i) * kWeightStride + first);
      }
      TESSERA_UNROLL for (int e = 0; e < 4; ++e) {
        const V* from = others + slot(first + e) * kStride + 4 * column_lane();
        TESSERA_UNROLL for (int c = 0; c < kSumsEach; c += 4) {
          const Pack<V, 4> right = packed<4>(from + c * kColumnLanes);
          TESSERA_UNROLL for (int i = 0; i < kRowsEach; ++i) {
            // Not a weight of 0: what is hidden may not be finite.
            if (!kAll && !sees(row(i), first + e)) continue;
            TESSERA_UNROLL for (int s = 0; s < 4; ++s) {
              sums[i][c + s] += left[i].of[e] * right.of[s];
            }
          }
        }
      }
    }
  }

  /// Positions [first, first + kCount) of a head; 0 from `end` on, and after the last feature up to
  /// a multiple of four.
  template <int kCount, class T, class Slot>
  static __device__ void load_rows(V* to,
                                   const Positions<const T>& from,
                                   const T* head,
                                   i64 first,
                                   i64 end,
                                   int features,
                                   Slot slot_of) {
    constexpr int kEach = kPack<T>, kAcross = kMostFeatures / kEach;
    for (int n = static_cast<int>(threadIdx.x); n < kCount * kAcross; n += kThreads) {
      const int r = n / kAcross, f = n % kAcross * kEach;
      if (f >= (features + 3) / 4 * 4) continue;
      const bool inside = first + r < end;
      V values[kEach];
      cuda::load(values,
                 head + (first + r) * from.position + f,
                 inside ? features - f : 0,
                 inside && from.aligned);
      Pack<V, kEach> pack;
      TESSERA_UNROLL for (int e = 0; e < kEach; ++e) pack.of[e] = values[e];
      *reinterpret_cast<Pack<V, kEach>*>(to + slot_of(r) * kStride + f) = pack;
    }
  }
};

}  // namespace tessera::cuda::attention

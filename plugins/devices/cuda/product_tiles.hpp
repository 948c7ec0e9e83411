#pragma once
// Tiles of a product of two matrices, in plain arithmetic. A block of 128 threads computes kRows ×
// kColumns sums; both factors come past in slices of kDepth in shared memory, while the next slices
// are on their way into registers. Depth is what is summed over.
#include "packs.hpp"
#include "unroll.hpp"

namespace tessera::cuda::product_tiles {

inline constexpr int kThreads = 128, kRowLanes = 8, kColumnLanes = 16;
inline constexpr int kDepth = 16;

/// Numbers [first, end).
struct Range {
  i64 first, end;
};

/// A dense matrix whose rows are `stride` elements apart.
template <class T>
struct Factor {
  const T* data;
  i64 stride;
  bool whole;  ///< each row begins at a multiple of 16 bytes

  Factor(const T* data, i64 stride)
      : data(data), stride(stride), whole(aligned(data) && stride % kPack<T> == 0) {}
};

/// Slices of a factor, one after the other: in registers, then in shared memory. A slice has kCount
/// rows or columns of the tile and is kDepth deep. kDeepRows: the factor's rows lie along the
/// depth.
template <class T, int kCount, bool kDeepRows>
class Slice {
 public:
  using V = Compute<T>;
  static constexpr int kStride = kCount + 16 / static_cast<int>(sizeof(V));
  using Shared = V[kDepth * kStride];  // [depth, row or column]

  __device__ __forceinline__ Slice(const Factor<T>& from, Range count, i64 depth)
      : next_(from.data + (kDeepRows ? count.first : depth) * from.stride +
              (kDeepRows ? depth : count.first) + outer_of(0) * from.stride + inner()),
        stride_(from.stride),
        whole_(from.whole),
        count_(static_cast<int>(std::min<i64>(count.end - count.first, kCount))) {}

  /// The next slice, of which so much depth exists. What does not is 0.
  __device__ __forceinline__ void load(int depth) {
    const int rows = kDeepRows ? count_ : depth, columns = kDeepRows ? depth : count_;
    TESSERA_UNROLL for (int p = 0; p < kPacks; ++p) {
      const int here = outer_of(p) < rows ? columns - inner() : 0;
      const T* from = next_ + p * kTurn * stride_;
      if (whole_ && here >= kEach) {
        packs_[p] = *reinterpret_cast<const Pack<T>*>(from);
      } else {
        TESSERA_UNROLL for (int e = 0; e < kEach; ++e) {
          packs_[p].of[e] = e < here ? from[e] : narrow<T>(V(0));
        }
      }
    }
    next_ += kDeepRows ? kDepth : kDepth * stride_;
  }

  __device__ __forceinline__ void store(Shared& to) const {
    TESSERA_UNROLL for (int p = 0; p < kPacks; ++p) {
      const int outer = outer_of(p);
      if constexpr (kDeepRows) {
        TESSERA_UNROLL for (int e = 0; e < kEach; ++e) {
          to[(inner() + e) * kStride + outer] = widen(packs_[p].of[e]);
        }
      } else {
        Pack<V, kEach> wide;
        TESSERA_UNROLL for (int e = 0; e < kEach; ++e) wide.of[e] = widen(packs_[p].of[e]);
        *reinterpret_cast<Pack<V, kEach>*>(to + outer * kStride + inner()) = wide;
      }
    }
  }

 private:
  static constexpr int kEach = kPack<T>, kAcross = (kDeepRows ? kDepth : kCount) / kEach;
  static constexpr int kTurn = kThreads / kAcross;  // rows of the factor that a block takes at once
  static constexpr int kPacks = kCount * kDepth / kEach / kThreads;
  static_assert(kTurn * kAcross == kThreads && kPacks * kEach * kThreads == kCount * kDepth);

  /// Where a pack of this thread lies within the slice.
  static __device__ __forceinline__ int outer_of(int pack) {
    return static_cast<int>(threadIdx.x) / kAcross + pack * kTurn;
  }
  static __device__ __forceinline__ int inner() {
    return static_cast<int>(threadIdx.x) % kAcross * kEach;
  }

  const T* next_;
  i64 stride_;
  bool whole_;
  int count_;
  Pack<T> packs_[kPacks];
};

/// The tiles of factors of T. kDeepA: a is [row, depth], else [depth, row]; kDeepB: b is [column,
/// depth], else [depth, column].
template <class T, bool kDeepA, bool kDeepB>
struct Tile {
  using V = Compute<T>;
  static constexpr int kEach = sizeof(V) == sizeof(double) ? 4 : 8;  // rows and columns of a thread
  static constexpr int kRows = kEach * kRowLanes, kColumns = kEach * kColumnLanes;
  using SliceA = Slice<T, kRows, kDeepA>;
  using SliceB = Slice<T, kColumns, kDeepB>;
  struct alignas(16) Memory {
    typename SliceA::Shared a;
    typename SliceB::Shared b;
  };
  using Sums = V[kEach][kEach];

  /// sums = a · b of these rows and columns. All threads of the block call it.
  static __device__ __forceinline__ void multiply(Sums& sums,
                                                  Memory& memory,
                                                  const Factor<T>& a,
                                                  Range rows,
                                                  const Factor<T>& b,
                                                  Range columns,
                                                  Range depth) {
    TESSERA_UNROLL for (int i = 0; i < kEach; ++i) {
      TESSERA_UNROLL for (int j = 0; j < kEach; ++j) sums[i][j] = 0;
    }
    if (depth.first >= depth.end) return;  // then a factor may have no memory
    SliceA slice_a(a, rows, depth.first);
    SliceB slice_b(b, columns, depth.first);
    const auto load = [&](i64 deep) {
      const int here = static_cast<int>(std::min<i64>(deep, kDepth));
      slice_a.load(here);
      slice_b.load(here);
    };
    i64 deep = depth.end - depth.first;
    load(deep);
    while (deep > 0) {
      __syncthreads();  // the last slices have been read
      slice_a.store(memory.a);
      slice_b.store(memory.b);
      __syncthreads();
      deep -= kDepth;
      if (deep > 0) load(deep);
      // Not all at once: what is read ahead takes registers.
      TESSERA_DO_NOT_UNROLL for (int d = 0; d < kDepth; d += 4) {
        TESSERA_UNROLL for (int e = 0; e < 4; ++e) {
          V left[kEach], right[kEach];
          read(left, memory.a + (d + e) * SliceA::kStride, kRowLanes, row_lane());
          read(right, memory.b + (d + e) * SliceB::kStride, kColumnLanes, column_lane());
          TESSERA_UNROLL for (int i = 0; i < kEach; ++i) {
            TESSERA_UNROLL for (int j = 0; j < kEach; ++j) sums[i][j] += left[i] * right[j];
          }
        }
      }
    }
  }

  /// Calls f(row, column, four sums of neighbouring columns), numbered within the tile.
  template <class F>
  static __device__ __forceinline__ void for_fours(const Sums& sums, F f) {
    TESSERA_UNROLL for (int i = 0; i < kEach; ++i) {
      TESSERA_UNROLL for (int j = 0; j < kEach; j += 4) {
        const V four[] = {sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]};
        f(place(i, kRowLanes, row_lane()), place(j, kColumnLanes, column_lane()), four);
      }
    }
  }

 private:
  static __device__ __forceinline__ int row_lane() {
    return static_cast<int>(threadIdx.x) / kColumnLanes;
  }
  static __device__ __forceinline__ int column_lane() {
    return static_cast<int>(threadIdx.x) % kColumnLanes;
  }
  /// Where the thread's row or column i is: four neighbours, then those of the other lanes.
  static __device__ __forceinline__ int place(int i, int lanes, int lane) {
    return (i / 4 * lanes + lane) * 4 + i % 4;
  }
  static __device__ __forceinline__ void read(V (&to)[kEach], const V* from, int lanes, int lane) {
    TESSERA_UNROLL for (int i = 0; i < kEach; i += 4) {
      const auto four = *reinterpret_cast<const Pack<V, 4>*>(from + place(i, lanes, lane));
      TESSERA_UNROLL for (int e = 0; e < 4; ++e) to[i + e] = four.of[e];
    }
  }
};

}  // namespace tessera::cuda::product_tiles

#pragma once
// Tiles of a product of two 16-bit matrices on tensor cores, with the interface of
// product_tiles.hpp. Slices of both factors come past in shared memory, two ahead of the one that
// is multiplied. Each of four warps computes a quarter of the tile, 32 × 64.
#include "product_tiles.hpp"
#include "tensor_tiles.hpp"

namespace tessera::cuda::product_tiles {

/// Slices of a factor in shared memory: kCount rows or columns of the tile, kDepth deep. kDeepRows:
/// the factor's rows lie along the depth, and so do those of the slice.
template <class T, int kCount, bool kDeepRows, int kDepth>
class TensorSlice {
 public:
  static constexpr int kAlong = kDeepRows ? kDepth : kCount, kRows = kDeepRows ? kCount : kDepth;
  static constexpr int kStride = tensor_tiles::stride_of(kAlong);
  using Shared = T[kRows * kStride];

  __device__ __forceinline__ TensorSlice(const Factor<T>& from, Range count, i64 depth)
      : next_(from.data + (kDeepRows ? count.first : depth) * from.stride +
              (kDeepRows ? depth : count.first) + outer() * from.stride + inner()),
        stride_(from.stride),
        whole_(from.whole),
        count_(static_cast<int>(std::min<i64>(count.end - count.first, kCount))) {}

  /// Begins to copy the next slice, of which so much depth exists. What does not is 0.
  __device__ __forceinline__ void fetch(Shared& to, int depth) {
    const int rows = kDeepRows ? count_ : depth, along = kDeepRows ? depth : count_;
    TESSERA_UNROLL for (int p = 0; p < kRows / kTurn; ++p) {
      const int row = outer() + p * kTurn;
      tensor_tiles::fetch(to + row * kStride + inner(),
                          next_ + p * kTurn * stride_,
                          row < rows ? along - inner() : 0,
                          whole_);
    }
    next_ += kDeepRows ? kDepth : kDepth * stride_;
  }

  /// Where the part of 16 rows or columns from `count`, and of depth from `depth`, begins.
  static __device__ __forceinline__ const T* part(const Shared& slice, int count, int depth) {
    return slice + (kDeepRows ? count * kStride + depth : depth * kStride + count);
  }

 private:
  static constexpr int kEach = kPack<T>, kAcross = kAlong / kEach;
  static constexpr int kTurn = kThreads / kAcross;  // rows that a block takes at once
  static_assert(kTurn * kAcross == kThreads && kRows % kTurn == 0);

  static __device__ __forceinline__ int outer() { return static_cast<int>(threadIdx.x) / kAcross; }
  static __device__ __forceinline__ int inner() {
    return static_cast<int>(threadIdx.x) % kAcross * kEach;
  }

  const T* next_;
  i64 stride_;
  bool whole_;
  int count_;
};

/// Like Tile, for T of 16 bits.
template <class T, bool kDeepA, bool kDeepB>
struct TensorTile {
  static constexpr int kRows = 64, kColumns = 128, kDepth = 32;
  using SliceA = TensorSlice<T, kRows, kDeepA, kDepth>;
  using SliceB = TensorSlice<T, kColumns, kDeepB, kDepth>;
  struct alignas(16) Stage {
    typename SliceA::Shared a;
    typename SliceB::Shared b;
  };
  static constexpr int kStages = 3;
  using Memory = Stage[kStages];

  static constexpr int kPart = tensor_tiles::kPart;
  static constexpr int kRowParts = 2, kColumnParts = 4;  // of a warp
  using Sums = float[kRowParts][kColumnParts][2][4];

  /// sums = a · b of these rows and columns. All threads of the block call it.
  static __device__ __forceinline__ void multiply(Sums& sums,
                                                  Memory& memory,
                                                  const Factor<T>& a,
                                                  Range rows,
                                                  const Factor<T>& b,
                                                  Range columns,
                                                  Range depth) {
    TESSERA_UNROLL for (int i = 0; i < kRowParts; ++i) {
      TESSERA_UNROLL for (int j = 0; j < kColumnParts; ++j) {
        TESSERA_UNROLL for (int c = 0; c < 8; ++c) sums[i][j][c / 4][c % 4] = 0;
      }
    }
    if (depth.first >= depth.end) return;  // then a factor may have no memory
    SliceA slice_a(a, rows, depth.first);
    SliceB slice_b(b, columns, depth.first);
    i64 to_fetch = depth.end - depth.first, to_multiply = to_fetch;
    int fetched = 0, multiplied = 0;  // stages
    const auto fetch = [&] {
      if (to_fetch > 0) {
        const int here = static_cast<int>(std::min<i64>(to_fetch, kDepth));
        slice_a.fetch(memory[fetched].a, here);
        slice_b.fetch(memory[fetched].b, here);
        to_fetch -= kDepth;
        fetched = (fetched + 1) % kStages;
      }
      commit_copies();
    };
    // At the tile's end a factor may have fewer rows or columns.
    const bool busy =
        first_row() < rows.end - rows.first && first_column() < columns.end - columns.first;
    __syncthreads();  // the last tile's slices have been read
    TESSERA_UNROLL for (int stage = 0; stage < kStages - 1; ++stage) fetch();
    for (; to_multiply > 0; to_multiply -= kDepth, multiplied = (multiplied + 1) % kStages) {
      wait_for_copies<kStages - 2>();
      __syncthreads();  // this stage is here, and the last one has been read
      fetch();
      if (busy) add_products(sums, memory[multiplied]);
    }
  }

  /// Calls f(row, column, four sums of neighbouring columns), numbered within the tile. Two lanes
  /// have two of them each, of two rows: they exchange, so that each has four of one row.
  template <class F>
  static __device__ __forceinline__ void for_fours(const Sums& sums, F f) {
    const bool odd = tensor_tiles::lane() % 2 != 0;
    TESSERA_UNROLL for (int i = 0; i < kRowParts; ++i) {
      TESSERA_UNROLL for (int n = 0; n < 2 * kColumnParts; ++n) {
        const float(&own)[4] = sums[i][n / 2][n % 2];
        float four[4];
        TESSERA_UNROLL for (int c = 0; c < 2; ++c) {
          const float other = __shfl_xor_sync(kAllLanes, odd ? own[c] : own[2 + c], 1);
          four[c] = odd ? other : own[c];
          four[2 + c] = odd ? own[2 + c] : other;
        }
        f(first_row() + i * kPart + tensor_tiles::fragment_row() + (odd ? 8 : 0),
          first_column() + n * 8 + tensor_tiles::fragment_column() / 4 * 4,
          four);
      }
    }
  }

 private:
  static __device__ __forceinline__ int first_row() {
    return tensor_tiles::warp() / 2 * kRowParts * kPart;
  }
  static __device__ __forceinline__ int first_column() {
    return tensor_tiles::warp() % 2 * kColumnParts * kPart;
  }
  static __device__ __forceinline__ void add_products(Sums& sums, const Stage& stage) {
    TESSERA_UNROLL for (int d = 0; d < kDepth; d += kPart) {
      u32 left[kRowParts][4];
      TESSERA_UNROLL for (int i = 0; i < kRowParts; ++i) {
        tensor_tiles::load_a<kDeepA, SliceA::kStride>(
            left[i], SliceA::part(stage.a, first_row() + i * kPart, d));
      }
      TESSERA_UNROLL for (int j = 0; j < kColumnParts; ++j) {
        u32 right[4];
        tensor_tiles::load_b<kDeepB, SliceB::kStride>(
            right, SliceB::part(stage.b, first_column() + j * kPart, d));
        TESSERA_UNROLL for (int i = 0; i < kRowParts; ++i) {
          tensor_tiles::multiply<T>(sums[i][j], left[i], right);
        }
      }
    }
  }
};

/// The tiles of factors of T.
template <class T, bool kDeepA, bool kDeepB>
using TileFor = typename std::conditional_t<kTensorCores<T>,
                                            std::type_identity<TensorTile<T, kDeepA, kDeepB>>,
                                            std::type_identity<Tile<T, kDeepA, kDeepB>>>::type;

}  // namespace tessera::cuda::product_tiles

// Products of the rows of experts: grouped_matmul, grouped_weight, those of 16-bit types on tensor
// cores. How many rows an expert has is read by the kernels, so the host never waits for it.
#include "kernels.hpp"
#include "product_tensor_tiles.hpp"
#include "tessera/ops/moe.hpp"
#include "warp_scan.hpp"

namespace tessera::cuda {
namespace {

using product_tiles::Factor;
using product_tiles::kThreads;
using product_tiles::Range;
using product_tiles::TileFor;

constexpr int kBlocksEach = 3;  // blocks of each multiprocessor
constexpr i64 kManyBlocks = kBlocksEach * kMultiprocessors;

/// Whose rows are whose, as counts [experts] on the device say.
struct ExpertRows {
  const i64* counts;
  i64 experts, rows;

  explicit ExpertRows(const TensorArg& counts, i64 rows)
      : counts(counts.as<const i64>()), experts(counts.shape[0]), rows(rows) {}

  /// At most all rows, so that no sum of counts overflows.
  __device__ i64 count(i64 expert) const {
    const i64 given = counts[expert];
    return given < 0 ? 0 : (given < rows ? given : rows);
  }
  __device__ i64 within(i64 row) const { return row < rows ? row : rows; }

  __device__ Range of(i64 expert) const {
    i64 before = 0;
    for (i64 e = threadIdx.x % kWarp; e < expert; e += kWarp) before += count(e);
    before = warp_sum(before);
    return {within(before), within(before + count(expert))};
  }
};

/// A tile of the rows of one expert. Padding is the rows of an expert after the last one.
struct ExpertTile {
  bool exists;
  i64 expert, column;  // the number of a tile of columns
  Range rows;
};

/// Tile `number` of tiles of kRows rows of one expert and of a tile of `columns`. Those with the
/// same columns of a matrix follow each other, so that these are read from memory once.
template <int kRows>
__device__ ExpertTile find_tile(const ExpertRows& of, i64 columns, i64 number) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  i64 row = 0, tile = 0;  // before the experts of this turn
  for (i64 base = 0; base <= of.experts; base += kWarp) {
    const i64 e = base + lane;
    const i64 count = e < of.experts ? of.count(e) : (e == of.experts ? of.rows : 0);
    const i64 last_row = row + sum_up_to_lane(count);
    const Range rows{of.within(last_row - count), of.within(last_row)};
    const i64 tiles = blocks_for(rows.end - rows.first, kRows);
    const i64 last_tile = tile + sum_up_to_lane(tiles * columns);
    const unsigned beyond = __ballot_sync(kAllLanes, number < last_tile);
    if (beyond != 0) {
      const int found = first_of(beyond);
      const auto of_found = [&](i64 value) { return __shfl_sync(kAllLanes, value, found); };
      const i64 place = number - of_found(last_tile - tiles * columns);
      const i64 in_column = of_found(tiles);
      const i64 first = of_found(rows.first) + place % in_column * kRows;
      return {.exists = true,
              .expert = base + found,
              .column = place / in_column,
              .rows = {first, of_found(rows.end)}};
    }
    row = __shfl_sync(kAllLanes, last_row, kWarp - 1);
    tile = __shfl_sync(kAllLanes, last_tile, kWarp - 1);
  }
  return {};
}

template <class T>
struct Matmul {
  ExpertRows rows;
  Factor<T> a, b;  // b: that of the first expert
  i64 depth, width;
  T* out;
  bool whole_out;
};

/// A grid that stays, since the number of tiles is known on the device only.
template <class T, bool kTransposed>
__global__ void __launch_bounds__(kThreads, kBlocksEach) multiply_rows(Matmul<T> of) {
  using Tiles = TileFor<T, true, kTransposed>;
  auto& memory = shared<typename Tiles::Memory>();
  const i64 across = blocks_for(of.width, Tiles::kColumns);
  for (i64 number = blockIdx.x;; number += gridDim.x) {
    const ExpertTile tile = find_tile<Tiles::kRows>(of.rows, across, number);
    if (!tile.exists) break;
    const bool padding = tile.expert == of.rows.experts;
    const Range columns{tile.column * Tiles::kColumns, of.width};
    Factor<T> b = of.b;
    if (!padding) b.data += tile.expert * of.depth * of.width;
    typename Tiles::Sums sums;
    Tiles::multiply(sums, memory, of.a, tile.rows, b, columns, {0, padding ? 0 : of.depth});
    Tiles::for_fours(sums, [&](int row, int column, const auto& four) {
      const i64 i = tile.rows.first + row, j = columns.first + column;
      if (i >= tile.rows.end) return;
      store(of.out + i * of.width + j, four, of.width - j, of.whole_out);
    });
  }
}

template <class T, class S>
struct Weights {
  ExpertRows rows;
  Factor<T> a, grad;
  i64 height, width;
  S* out;
  bool whole_out;
};

/// A block for each tile: which of them take long is known on the device only.
template <class T, class S>
__global__ void __launch_bounds__(kThreads, kBlocksEach) add_weights(Weights<T, S> of) {
  using Tiles = TileFor<T, false, false>;
  using V = Compute<T>;
  auto& memory = shared<typename Tiles::Memory>();
  const i64 down = blocks_for(of.height, Tiles::kRows);
  const i64 across = blocks_for(of.width, Tiles::kColumns);
  const i64 tiles = of.rows.experts * down * across;
  for (i64 number = blockIdx.x; number < tiles; number += gridDim.x) {
    const i64 expert = number / (down * across), tile = number % (down * across);
    const Range depth = of.rows.of(expert);
    if (depth.first == depth.end) continue;  // nothing is added
    const Range rows{tile % down * Tiles::kRows, of.height};
    const Range columns{tile / down * Tiles::kColumns, of.width};
    typename Tiles::Sums sums;
    Tiles::multiply(sums, memory, of.a, rows, of.grad, columns, depth);
    Tiles::for_fours(sums, [&](int row, int column, const auto& four) {
      const i64 i = rows.first + row, j = columns.first + column;
      if (i >= rows.end) return;
      S* to = of.out + (expert * of.height + i) * of.width + j;
      V values[4];
      load(values, to, of.width - j, of.whole_out);
      TESSERA_UNROLL for (int n = 0; n < 4; ++n) values[n] += four[n];
      store(to, values, of.width - j, of.whole_out);
    });
  }
}

template <class T, bool kTransposed>
void launch_matmul(const GroupedMatmulArgs& args, cudaStream_t stream) {
  using Tiles = TileFor<T, true, kTransposed>;
  const i64 depth = args.a.shape[1], width = args.out.shape[1];
  const ExpertRows rows(args.counts, args.a.shape[0]);
  // One tile of each expert, and of the padding, may have fewer rows than others.
  const i64 most =
      (rows.rows / Tiles::kRows + rows.experts + 1) * blocks_for(width, Tiles::kColumns);
  launch(multiply_rows<T, kTransposed>,
         {.blocks = std::min(most, kManyBlocks),
          .threads = kThreads,
          .shared_bytes = static_cast<i64>(sizeof(typename Tiles::Memory))},
         stream,
         Matmul<T>{.rows = rows,
                   .a = Factor<T>(args.a.as<const T>(), depth),
                   .b = Factor<T>(args.b.as<const T>(), kTransposed ? depth : width),
                   .depth = depth,
                   .width = width,
                   .out = args.out.as<T>(),
                   .whole_out = aligned<T, 4>(args.out.as<T>()) && width % 4 == 0});
}

}  // namespace

template <>
void run(const GroupedMatmulArgs& args, void*, cudaStream_t stream) {
  if (args.out.elements() == 0) return;
  with_floating(args.kName, args.a.dtype, [&]<class T>(T) {
    args.transpose_b ? launch_matmul<T, true>(args, stream) : launch_matmul<T, false>(args, stream);
  });
}

template <>
void run(const GroupedWeightArgs& args, void*, cudaStream_t stream) {
  if (args.out.elements() == 0) return;
  const i64 height = args.a.shape[1], width = args.grad.shape[1];
  const ExpertRows rows(args.counts, args.a.shape[0]);
  with_floating(args.kName, args.a.dtype, [&]<class T>(T) {
    with_accumulator<T>(args.out.dtype, [&]<class S>(S) {
      using Tiles = TileFor<T, false, false>;
      const i64 tiles =
          rows.experts * blocks_for(height, Tiles::kRows) * blocks_for(width, Tiles::kColumns);
      launch(add_weights<T, S>,
             {.blocks = std::min<i64>(tiles, 0x7fffffff),
              .threads = kThreads,
              .shared_bytes = static_cast<i64>(sizeof(typename Tiles::Memory))},
             stream,
             Weights<T, S>{.rows = rows,
                           .a = Factor<T>(args.a.as<const T>(), height),
                           .grad = Factor<T>(args.grad.as<const T>(), width),
                           .height = height,
                           .width = width,
                           .out = args.out.as<S>(),
                           .whole_out = aligned<S, 4>(args.out.as<S>()) && width % 4 == 0});
    });
  });
}

}  // namespace tessera::cuda

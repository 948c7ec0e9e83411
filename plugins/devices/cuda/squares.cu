// Sums of squares: sum_squares, block_squares, sum_blocks.
#include "kernels.hpp"
#include "packs.hpp"
#include "tessera/ops/update.hpp"
#include "warp_scan.hpp"

namespace tessera::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kN = 4;                              // neighbouring elements of a thread
constexpr i64 kManyBlocks = 8 * kMultiprocessors;  // of a grid that walks
constexpr int kSumThreads = 1024, kSumWarps = kSumThreads / kWarp;

/// A row of a table of ranges, in device memory.
struct Range {
  i64 begin, length;
};

/// The sum over a block of elements: the same bits wherever it lies.
template <class T>
__device__ double block_squares_of(const T* x, i64 length, double* partial) {
  const bool whole = aligned<T, kN>(x);
  double sum = 0;
  for_packs<kN>(length, [&](i64 i, i64 count) {
    double values[kN];
    load(values, x + i, count, whole);
    for (int n = 0; n < kN; ++n) sum = multiply_add(values[n], values[n], sum);
  });
  return block_sum(sum, partial);
}

/// places[r] = the first block of range r, and how many it has. One warp.
__global__ void place_blocks(const Range* ranges, i64 count, i64 elements, Range* places) {
  const int lane = static_cast<int>(threadIdx.x);
  i64 first = 0;
  for (i64 begin = 0; begin < count; begin += kWarp) {
    const i64 r = begin + lane;
    i64 length = 0;
    if (r < count) length = ranges == nullptr ? elements : ranges[r].length;
    const i64 blocks = blocks_for(length, kSquareBlock);
    const i64 end = sum_up_to_lane(blocks);
    if (r < count) places[r] = {first + end - blocks, blocks};
    first += __shfl_sync(kAllLanes, end, kWarp - 1);
  }
}

/// Which range has this block: the first that ends after it.
__device__ i64 range_of(const Range* places, i64 count, i64 block) {
  i64 first = 0, last = count;
  while (first < last) {
    const i64 middle = (first + last) / 2;
    if (places[middle].begin + places[middle].length <= block) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  return first;
}

/// sums[b] = sum of squares of block b of the ranges. Only the device knows how many there are.
template <class T>
__global__ void range_squares(
    const T* x, const Range* ranges, const Range* places, i64 count, i64 elements, double* sums) {
  const i64 blocks = places[count - 1].begin + places[count - 1].length;
  for (i64 block = blockIdx.x; block < blocks; block += gridDim.x) {
    const i64 r = range_of(places, count, block);
    const Range range = ranges == nullptr ? Range{0, elements} : ranges[r];
    const i64 skipped = (block - places[r].begin) * kSquareBlock;
    const double sum = block_squares_of(x + range.begin + skipped,
                                        std::min(i64{kSquareBlock}, range.length - skipped),
                                        &shared<double>());
    if (threadIdx.x == 0) sums[block] = sum;
  }
}

template <class T>
__global__ void block_squares(const T* x, const i64* table, i64 count, double* sums) {
  for (i64 row = blockIdx.x; row < count; row += gridDim.x) {
    const i64 *begin = table + 3 * row, *length = begin + 1, *place = begin + 2;
    const double sum = block_squares_of(x + *begin, *length, &shared<double>());
    if (threadIdx.x == 0) sums[*place] = sum;
  }
}

/// out += the sum of each range of blocks, in order. One block: a warp takes a range, and its lanes
/// read ahead what all of them then add one after the other.
__global__ void sum_blocks(const double* blocks, const Range* ranges, i64 count, double* out) {
  auto& totals = shared<double[kSumWarps]>();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  double sum = *out;
  for (i64 begin = 0; begin < count; begin += kSumWarps) {
    const i64 r = begin + warp;
    const Range range = r < count ? ranges[r] : Range{0, 0};
    double total = 0;
    for (i64 at = 0; at < range.length; at += kWarp) {
      const double value = at + lane < range.length ? blocks[range.begin + at + lane] : 0;
      const i64 values = std::min<i64>(kWarp, range.length - at);
      for (int k = 0; k < values; ++k) total += __shfl_sync(kAllLanes, value, k);
    }
    if (lane == 0) totals[warp] = total;
    __syncthreads();
    for (int k = 0; k < kSumWarps && begin + k < count; ++k) sum += totals[k];
    __syncthreads();
  }
  if (threadIdx.x == 0) *out = sum;
}

constexpr LaunchShape kOneBlock{.threads = kSumThreads,
                                .shared_bytes = kSumWarps * static_cast<i64>(sizeof(double))};

LaunchShape squares_shape(i64 blocks) {
  return {.blocks = std::min(blocks, kManyBlocks),
          .threads = kThreads,
          .shared_bytes = kThreads / kWarp * static_cast<i64>(sizeof(double))};
}

bool has_ranges(const SumSquaresArgs& args) { return args.ranges.rank > 0; }
i64 ranges_of(const SumSquaresArgs& args) { return has_ranges(args) ? args.ranges.shape[0] : 1; }

/// An upper bound: blocks begin anew in each range.
i64 most_blocks(const SumSquaresArgs& args) {
  return args.x.elements() / kSquareBlock + ranges_of(args);
}

}  // namespace

template <>
i64 Workspace<SumSquaresArgs>::bytes(const SumSquaresArgs& args) {
  return ranges_of(args) * static_cast<i64>(sizeof(Range)) +
         most_blocks(args) * static_cast<i64>(sizeof(double));
}

template <>
void run(const SumSquaresArgs& args, void* workspace, cudaStream_t stream) {
  const i64 count = ranges_of(args), elements = args.x.elements();
  if (count == 0 || elements == 0) return;
  auto* places = static_cast<Range*>(workspace);
  auto* sums = reinterpret_cast<double*>(places + count);
  const auto* ranges = args.ranges.as<const Range>();
  launch(place_blocks, {.threads = kWarp}, stream, ranges, count, elements, places);
  with_floating(args.kName, args.x.dtype, [&]<class T>(T) {
    launch(range_squares<T>,
           squares_shape(most_blocks(args)),
           stream,
           args.x.as<T>(),
           ranges,
           places,
           count,
           elements,
           sums);
  });
  launch(sum_blocks, kOneBlock, stream, sums, places, count, args.out.as<double>());
}

template <>
void run(const BlockSquaresArgs& args, void*, cudaStream_t stream) {
  const i64 count = args.blocks.shape[0];
  with_floating(args.kName, args.x.dtype, [&]<class T>(T) {
    launch(block_squares<T>,
           squares_shape(count),
           stream,
           args.x.as<T>(),
           args.blocks.as<i64>(),
           count,
           args.out.as<double>());
  });
}

template <>
void run(const SumBlocksArgs& args, void*, cudaStream_t stream) {
  if (args.ranges.shape[0] == 0) return;
  launch(sum_blocks,
         kOneBlock,
         stream,
         args.blocks.as<double>(),
         args.ranges.as<Range>(),
         args.ranges.shape[0],
         args.out.as<double>());
}

}  // namespace tessera::cuda

// Rows of a table, and the gradient of the table.
#include "tessera/ops/embedding.hpp"

#include "kernels.hpp"
#include "packs.hpp"

namespace tessera::cuda {
namespace {

template <class T>
__global__ void embedding(const i64* ids,
                          i64 first,
                          const T* table,
                          i64 entries,
                          T* out,
                          i64 rows,
                          i64 width,
                          bool whole) {
  constexpr int kN = kPack<T>;
  for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
    const i64 entry = ids[row] - first;
    const bool here = entry >= 0 && entry < entries;
    for_packs<kN>(width, [&](i64 j, i64 count) {
      Compute<T> values[kN] = {};
      if (here) load(values, table + entry * width + j, count, whole);
      store(out + row * width + j, values, count, whole);
    });
  }
}

// Columns of a lane, and of a warp.
constexpr int kN = 4, kTile = kWarp * kN;
constexpr int kAhead = 4;  // ids that a lane reads at once
// Warps of a block, and all of them, which are many for each multiprocessor.
constexpr i64 kWarps = 4, kManyWarps = 32 * kMultiprocessors;

template <class T, class S>
struct TableGradient {
  const i64* ids;
  const T* grad;
  S* table;
  i64 rows, entries, width, first;
  i64 owners;  // a power of two
  bool whole;
};

/// A warp owns each `owners`-th entry of the table (frequent ones lie side by side in a vocabulary)
/// in some columns. It looks at all ids and adds the rows of its own in order. Neighbours with one
/// id are added up in registers, rounded as in memory.
template <class T, class S>
__global__ void table_gradient(TableGradient<T, S> of) {
  using C = Compute<S>;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const i64 owner = static_cast<i64>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  if (owner >= of.owners) return;  // the whole warp
  for (i64 tile = blockIdx.y; tile * kTile < of.width; tile += gridDim.y) {
    const i64 column = tile * kTile + lane * kN, count = of.width - column;
    i64 entry = -1;  // whose sums are in registers
    C sums[kN] = {};
    const auto change_to = [&](i64 next) {
      if (count <= 0 || next == entry) return;
      if (entry >= 0) store(of.table + entry * of.width + column, sums, count, of.whole);
      entry = next;
      if (entry >= 0) load(sums, of.table + entry * of.width + column, count, of.whole);
    };
    const auto add_row = [&](i64 row, i64 to) {
      change_to(to);
      C grads[kN] = {};
      if (count > 0) load(grads, of.grad + row * of.width + column, count, of.whole);
      for (int n = 0; n < kN; ++n) {
        sums[n] = static_cast<C>(widen(narrow<S>(sums[n] + grads[n])));
      }
    };
    for (i64 begin = 0; begin < of.rows; begin += kAhead * kWarp) {
      i64 mine[kAhead];  // entries; -1: another warp's
      bool any = false;
      for (int k = 0; k < kAhead; ++k) {
        const i64 row = begin + k * kWarp + lane;
        mine[k] = row < of.rows ? of.ids[row] - of.first : -1;
        if (mine[k] >= of.entries || (mine[k] & (of.owners - 1)) != owner) mine[k] = -1;
        any |= mine[k] >= 0;
      }
      if (!__any_sync(kAllLanes, any)) continue;
      for (int k = 0; k < kAhead; ++k) {
        unsigned hits = __ballot_sync(kAllLanes, mine[k] >= 0);
        while (hits != 0) {
          const int hit = first_of(hits);
          hits &= hits - 1;
          add_row(begin + k * kWarp + hit, __shfl_sync(kAllLanes, mine[k], hit));
        }
      }
    }
    change_to(-1);
  }
}

}  // namespace

template <>
void run(const EmbeddingArgs& args, void*, cudaStream_t stream) {
  const i64 rows = args.ids.shape[0], width = args.table.shape[1];
  with_floating(args.kName, args.table.dtype, [&]<class T>(T) {
    launch(embedding<T>,
           {.blocks = blocks_of_rows(rows), .threads = threads_for(blocks_for(width, kPack<T>))},
           stream,
           args.ids.as<i64>(),
           args.first,
           args.table.as<T>(),
           args.table.shape[0],
           args.out.as<T>(),
           rows,
           width,
           aligned<T>(args.table.as<T>()) && aligned<T>(args.out.as<T>()) && width % kPack<T> == 0);
  });
}

template <>
void run(const EmbeddingWeightArgs& args, void*, cudaStream_t stream) {
  const i64 rows = args.ids.shape[0];
  const i64 entries = args.table_grad.shape[0], width = args.table_grad.shape[1];
  if (rows == 0) return;
  const i64 tiles = blocks_for(width, kTile);
  i64 owners = 1;
  while (owners < entries && owners < rows && owners * tiles < kManyWarps) owners *= 2;
  with_floating(args.kName, args.grad.dtype, [&]<class T>(T) {
    with_accumulator<T>(args.table_grad.dtype, [&]<class S>(S) {
      const TableGradient<T, S> of{
          .ids = args.ids.as<i64>(),
          .grad = args.grad.as<T>(),
          .table = args.table_grad.as<S>(),
          .rows = rows,
          .entries = entries,
          .width = width,
          .first = args.first,
          .owners = owners,
          .whole = aligned<T, kN>(args.grad.as<T>()) && aligned<S, kN>(args.table_grad.as<S>()) &&
                   width % kN == 0,
      };
      launch(table_gradient<T, S>,
             {.blocks = blocks_for(owners, kWarps),
              .rows = std::min<i64>(tiles, 65535),
              .threads = static_cast<int>(kWarps) * kWarp},
             stream,
             of);
    });
  });
}

}  // namespace tessera::cuda

// Rotary positions: a block takes a row, a thread a pair of features of a head.
#include "tessera/ops/rotary.hpp"

#include "kernels.hpp"
#include "packs.hpp"

namespace tessera::cuda {
namespace {

template <class T>
struct Turn {
  const T* x;
  T* out;
  i64 x_row, x_head, out_row, out_head;  // strides
  const i64* positions;
  const Compute<T>* table;
  i64 rows, table_rows;
  int heads, features, pairs;
  bool interleaved, inverse;
};

template <class T>
__global__ void rotary(Turn<T> of) {
  using C = Compute<T>;
  for (i64 row = blockIdx.x; row < of.rows; row += gridDim.x) {
    const i64 position = of.positions[row];
    const bool known = position >= 0 && position < of.table_rows;
    const C* cosines = of.table + (known ? 2 * position * of.pairs : 0);
    const T* x = of.x + row * of.x_row;
    T* out = of.out + row * of.out_row;
    for (int i = static_cast<int>(threadIdx.x); i < of.heads * of.pairs; i += blockDim.x) {
      const int head = i / of.pairs, pair = i % of.pairs;
      const int first = of.interleaved ? 2 * pair : pair;
      const int second = of.interleaved ? first + 1 : pair + of.pairs;
      const C cosine = known ? cosines[pair] : std::numeric_limits<C>::quiet_NaN();
      const C sine = of.inverse ? -cosines[of.pairs + pair] : cosines[of.pairs + pair];
      const C a = widen(x[head * of.x_head + first]), b = widen(x[head * of.x_head + second]);
      // Rounded products: a position's bits do not depend on which of two sums is contracted.
      out[head * of.out_head + first] = narrow<T>(product(a, cosine) - product(b, sine));
      out[head * of.out_head + second] = narrow<T>(product(b, cosine) + product(a, sine));
    }
    const int rest = of.features - 2 * of.pairs;
    if (rest == 0 || of.out == of.x) continue;
    for (int i = static_cast<int>(threadIdx.x); i < of.heads * rest; i += blockDim.x) {
      const int head = i / rest, feature = 2 * of.pairs + i % rest;
      out[head * of.out_head + feature] = x[head * of.x_head + feature];
    }
  }
}

}  // namespace

template <>
void run(const RotaryArgs& args, void*, cudaStream_t stream) {
  with_floating(args.kName, args.x.dtype, [&]<class T>(T) {
    const Turn<T> of{.x = args.x.as<T>(),
                     .out = args.out.as<T>(),
                     .x_row = args.x.strides[0],
                     .x_head = args.x.strides[1],
                     .out_row = args.out.strides[0],
                     .out_head = args.out.strides[1],
                     .positions = args.positions.as<i64>(),
                     .table = args.table.as<Compute<T>>(),
                     .rows = args.x.shape[0],
                     .table_rows = args.table.shape[0],
                     .heads = static_cast<int>(args.x.shape[1]),
                     .features = static_cast<int>(args.x.shape[2]),
                     .pairs = static_cast<int>(args.table.shape[2]),
                     .interleaved = args.interleaved,
                     .inverse = args.inverse};
    launch(rotary<T>,
           {.blocks = blocks_of_rows(of.rows),
            .threads = threads_for(static_cast<i64>(of.heads) * of.pairs)},
           stream,
           of);
  });
}

}  // namespace tessera::cuda

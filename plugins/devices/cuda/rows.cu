// Row by row, where an element's column counts: add_bias, dropout, jitter.
#include "kernels.hpp"
#include "packs.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/matmul.hpp"
#include "tessera/ops/router.hpp"
#include "tessera/random.hpp"

namespace tessera::cuda {
namespace {

template <class T>
__global__ void add_bias(const T* x, const T* bias, T* out, i64 rows, i64 width, bool whole) {
  constexpr int kN = kPack<T>;
  for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
    for_packs<kN>(width, [&](i64 j, i64 count) {
      Compute<T> values[kN], biases[kN];
      load(values, x + row * width + j, count, whole);
      load(biases, bias + j, count, whole);
      for (int n = 0; n < kN; ++n) values[n] += biases[n];
      store(out + row * width + j, values, count, whole);
    });
  }
}

/// Elements of a counter of random.hpp.
constexpr int kWords = 4;

template <class T>
struct Dropout {
  const T *x, *residual;  // residual: optional
  const i64* row_ids;     // optional: nothing is dropped
  T* out;
  i64 rows, width;
  u64 key, threshold;
  i64 offset;
  double scale;
  bool whole;
};

template <class T>
__global__ void dropout(Dropout<T> of) {
  using C = Compute<T>;
  // A thread takes the elements of one counter; the first of a row may be in the middle of one.
  const i64 first = of.offset / kWords, last = (of.offset + of.width - 1) / kWords;
  const C scale = static_cast<C>(of.scale);
  for (i64 row = blockIdx.x; row < of.rows; row += gridDim.x) {
    for (i64 counter = first + threadIdx.x; counter <= last; counter += blockDim.x) {
      const i64 begin = counter * kWords - of.offset;  // the column of its first word
      const bool inside = begin >= 0 && begin + kWords <= of.width;
      C factors[kWords] = {C(1), C(1), C(1), C(1)};
      if (of.row_ids != nullptr) {
        const auto words = Philox::words(of.key, hidden_counter(of.row_ids[row], counter * kWords));
        for (int n = 0; n < kWords; ++n) {
          factors[n] = words[static_cast<std::size_t>(n)] < of.threshold ? scale : C(0);
        }
      }
      const auto dropped = [](C value, C factor) { return factor == C(0) ? C(0) : value * factor; };
      const i64 at = row * of.width + begin;
      if (inside) {
        C values[kWords], others[kWords] = {};
        load(values, of.x + at, kWords, of.whole);
        if (of.residual != nullptr) load(others, of.residual + at, kWords, of.whole);
        for (int n = 0; n < kWords; ++n) values[n] = dropped(values[n], factors[n]) + others[n];
        store(of.out + at, values, kWords, of.whole);
      } else {
        for (int n = 0; n < kWords; ++n) {
          if (begin + n < 0 || begin + n >= of.width) continue;
          C value = dropped(widen(of.x[at + n]), factors[n]);
          if (of.residual != nullptr) value += widen(of.residual[at + n]);
          of.out[at + n] = narrow<T>(value);
        }
      }
    }
  }
}

template <class T>
__global__ void jitter(
    const T* x, const i64* row_ids, T* out, i64 rows, i64 width, u64 key, double eps, bool whole) {
  using C = Compute<T>;
  for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
    for_packs<kWords>(width, [&](i64 j, i64 count) {
      const auto words = Philox::words(key, hidden_counter(row_ids[row], j));
      C values[kWords];
      load(values, x + row * width + j, count, whole);
      for (int n = 0; n < kWords; ++n) {
        const double u = words[static_cast<std::size_t>(n)] / 4294967296.0;
        values[n] *= static_cast<C>(1 - eps + 2 * eps * u);
      }
      store(out + row * width + j, values, count, whole);
    });
  }
}

}  // namespace

template <>
void run(const AddBiasArgs& args, void*, cudaStream_t stream) {
  const i64 rows = args.x.shape[0], width = args.x.shape[1];
  with_floating(args.kName, args.x.dtype, [&]<class T>(T) {
    const bool whole =
        aligned_rows<T>(args.x) && aligned_rows<T>(args.bias) && aligned_rows<T>(args.out);
    launch(add_bias<T>,
           {.blocks = blocks_of_rows(rows), .threads = threads_for(blocks_for(width, kPack<T>))},
           stream,
           args.x.as<T>(),
           args.bias.as<T>(),
           args.out.as<T>(),
           rows,
           width,
           whole);
  });
}

template <>
void run(const DropoutArgs& args, void*, cudaStream_t stream) {
  const i64 rows = args.x.shape[0], width = args.x.shape[1];
  if (width == 0) return;
  with_floating(args.kName, args.x.dtype, [&]<class T>(T) {
    const auto fits = [](const TensorArg& x) { return aligned_rows<T, kWords>(x); };
    const Dropout<T> of{
        .x = args.x.as<T>(),
        .residual = args.residual.as<T>(),
        .row_ids = args.p > 0 ? args.row_ids.as<i64>() : nullptr,
        .out = args.out.as<T>(),
        .rows = rows,
        .width = width,
        .key = args.key,
        .threshold = keep_threshold(args.p),
        .offset = args.feature_offset,
        .scale = 1 / (1 - args.p),
        .whole = fits(args.x) && fits(args.residual) && fits(args.out) &&
                 args.feature_offset % kWords == 0,
    };
    launch(dropout<T>,
           {.blocks = blocks_of_rows(rows), .threads = threads_for(width / kWords + 1)},
           stream,
           of);
  });
}

template <>
void run(const JitterArgs& args, void*, cudaStream_t stream) {
  const i64 rows = args.x.shape[0], width = args.x.shape[1];
  with_floating(args.kName, args.x.dtype, [&]<class T>(T) {
    const auto fits = [](const TensorArg& x) { return aligned_rows<T, kWords>(x); };
    launch(jitter<T>,
           {.blocks = blocks_of_rows(rows), .threads = threads_for(blocks_for(width, kWords))},
           stream,
           args.x.as<T>(),
           args.row_ids.as<i64>(),
           args.out.as<T>(),
           rows,
           width,
           args.key,
           args.eps,
           fits(args.x) && fits(args.out));
  });
}

}  // namespace tessera::cuda

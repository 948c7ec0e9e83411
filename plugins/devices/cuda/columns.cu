// Sums over the rows of each column, added to what is there: column_sum, layernorm_weight.
//
// Blocks sum a chunk of the rows of some columns each, and a second kernel adds the sums of the
// chunks: there are more rows than columns, and few columns would keep few multiprocessors busy.
#include "kernels.hpp"
#include "packs.hpp"
#include "tessera/ops/matmul.hpp"
#include "tessera/ops/norm.hpp"

namespace tessera::cuda {

/// What is summed: up to two sums of each column. With names, because kernels take them as template
/// arguments.
namespace columns {

constexpr int kN = 4;  // neighbouring columns of a thread

template <class T>
struct Values {
  using Element = T;
  static constexpr int kSums = 1;
  const T* x;
  i64 stride;
  bool whole;

  template <class C>
  __device__ void add(C (&sums)[kSums][kN], i64 row, i64 column, i64 count) const {
    C values[kN];
    load(values, x + row * stride + column, count, whole);
    for (int n = 0; n < kN; ++n) sums[0][n] += values[n];
  }
};

/// grad · x̂ and, where rows are centred, grad.
template <class T, bool kCentred>
struct NormTerms {
  using Element = T;
  static constexpr int kSums = kCentred ? 2 : 1;
  const T *grad, *x;
  const Compute<T>*mean, *rstd;  // mean only where rows are centred
  i64 stride;
  bool whole;

  template <class C>
  __device__ void add(C (&sums)[kSums][kN], i64 row, i64 column, i64 count) const {
    C grads[kN], values[kN];
    load(grads, grad + row * stride + column, count, whole);
    load(values, x + row * stride + column, count, whole);
    for (int n = 0; n < kN; ++n) {
      if constexpr (kCentred) {
        sums[0][n] += grads[n] * ((values[n] - mean[row]) * rstd[row]);
        sums[1][n] += grads[n];
      } else {
        sums[0][n] += grads[n] * (values[n] * rstd[row]);
      }
    }
  }
};

}  // namespace columns

namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarp;
constexpr int kTile = kWarp * columns::kN;  // columns of a block
constexpr i64 kFewRows = 64;                // of a chunk: less is not worth a block
constexpr i64 kManyBlocks = 4 * kMultiprocessors;

struct Chunks {
  i64 rows, width, tiles, count, each;
  Chunks(i64 rows, i64 width) : rows(rows), width(width), tiles(blocks_for(width, kTile)) {
    const i64 wanted = std::max<i64>(kManyBlocks / std::max<i64>(tiles, 1), 1);
    const i64 chunks = std::max<i64>(std::min(wanted, blocks_for(rows, kFewRows)), 1);
    each = blocks_for(rows, chunks);
    count = each == 0 ? 0 : blocks_for(rows, each);
  }
};

/// partial [sums, chunks, columns]: the sums of a chunk of rows, which the warps of a block take in
/// turns.
template <class Terms>
__global__ void sum_chunk(Terms terms, Chunks chunks, Compute<typename Terms::Element>* partial) {
  using C = Compute<typename Terms::Element>;
  constexpr int kN = columns::kN, kSums = Terms::kSums;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const i64 column = static_cast<i64>(blockIdx.x) * kTile + lane * kN;
  const i64 begin = blockIdx.y * chunks.each;
  const i64 end = std::min(begin + chunks.each, chunks.rows);
  C sums[kSums][kN] = {};
  if (column < chunks.width) {
    for (i64 row = begin + warp; row < end; row += kWarps) {
      terms.add(sums, row, column, chunks.width - column);
    }
  }
  auto& of_warps = shared<C[kSums][kWarps][kTile]>();
  for (int s = 0; s < kSums; ++s) {
    for (int n = 0; n < kN; ++n) of_warps[s][warp][lane * kN + n] = sums[s][n];
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kSums * kTile; i += kThreads) {
    const int s = i / kTile, at = i % kTile;
    const i64 to = static_cast<i64>(blockIdx.x) * kTile + at;
    if (to >= chunks.width) continue;
    C sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += of_warps[s][w][at];
    partial[(s * chunks.count + blockIdx.y) * chunks.width + to] = sum;
  }
}

/// Gradients of a dtype of their own.
struct Sums {
  void* out;
  DType dtype;
};

template <class S, class C>
__device__ void add_to(void* out, i64 at, C sum) {
  S& to = static_cast<S*>(out)[at];
  to = narrow<S>(static_cast<C>(widen(to)) + sum);
}

/// out += the sums of the chunks, 32 columns a block; blockIdx.y says which sums.
template <class C>
__global__ void add_chunks(const C* partial, i64 chunks, i64 width, Sums first, Sums second) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const i64 column = static_cast<i64>(blockIdx.x) * kWarp + lane;
  C sum = 0;
  if (column < width) {
    for (i64 chunk = warp; chunk < chunks; chunk += kWarps) {
      sum += partial[(blockIdx.y * chunks + chunk) * width + column];
    }
  }
  auto& of_warps = shared<C[kWarps][kWarp]>();
  of_warps[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || column >= width) return;
  for (int w = 1; w < kWarps; ++w) sum += of_warps[w][lane];
  void* out = blockIdx.y == 0 ? first.out : second.out;
  const DType dtype = blockIdx.y == 0 ? first.dtype : second.dtype;
  if constexpr (std::is_same_v<C, double>) {
    add_to<double>(out, column, sum);
  } else if (dtype == DType::fp32) {
    add_to<float>(out, column, sum);
  } else if (dtype == DType::fp16) {
    add_to<Half>(out, column, sum);
  } else {
    add_to<BFloat>(out, column, sum);
  }
}

template <class Terms>
void add_columns(const Terms& terms,
                 const Chunks& chunks,
                 const TensorArg (&outs)[Terms::kSums],
                 void* workspace,
                 cudaStream_t stream) {
  using C = Compute<typename Terms::Element>;
  constexpr i64 kPartials = Terms::kSums * kWarps * kTile;
  C* partial = static_cast<C*>(workspace);
  launch(sum_chunk<Terms>,
         {.blocks = chunks.tiles,
          .rows = chunks.count,
          .threads = kThreads,
          .shared_bytes = kPartials * static_cast<i64>(sizeof(C))},
         stream,
         terms,
         chunks,
         partial);
  if (chunks.count == 0) return;
  const auto sums = [](const TensorArg& out) { return Sums{out.address, out.dtype}; };
  launch(add_chunks<C>,
         {.blocks = blocks_for(chunks.width, kWarp),
          .rows = Terms::kSums,
          .threads = kThreads,
          .shared_bytes = kThreads * static_cast<i64>(sizeof(C))},
         stream,
         partial,
         chunks.count,
         chunks.width,
         sums(outs[0]),
         sums(outs[Terms::kSums - 1]));
}

i64 bytes_of(const TensorArg& x, i64 sums) {
  const Chunks chunks(x.shape[0], x.shape[1]);
  const i64 each = x.dtype == DType::fp64 ? sizeof(double) : sizeof(float);
  return sums * chunks.count * chunks.width * each;
}

}  // namespace

template <>
i64 Workspace<ColumnSumArgs>::bytes(const ColumnSumArgs& args) {
  return bytes_of(args.x, 1);
}

template <>
i64 Workspace<LayerNormWeightArgs>::bytes(const LayerNormWeightArgs& args) {
  return bytes_of(args.x, args.centred ? 2 : 1);
}

template <>
void run(const ColumnSumArgs& args, void* workspace, cudaStream_t stream) {
  with_floating(args.kName, args.x.dtype, [&]<class T>(T) {
    const columns::Values<T> values{
        args.x.as<T>(), args.x.strides[0], aligned_rows<T, columns::kN>(args.x)};
    add_columns(values, Chunks(args.x.shape[0], args.x.shape[1]), {args.out}, workspace, stream);
  });
}

template <>
void run(const LayerNormWeightArgs& args, void* workspace, cudaStream_t stream) {
  const Chunks chunks(args.x.shape[0], args.x.shape[1]);
  with_floating(args.kName, args.x.dtype, [&]<class T>(T) {
    const auto add = [&]<bool kCentred>(const TensorArg(&outs)[kCentred ? 2 : 1]) {
      const columns::NormTerms<T, kCentred> terms{
          .grad = args.grad.as<T>(),
          .x = args.x.as<T>(),
          .mean = args.mean.as<Compute<T>>(),
          .rstd = args.rstd.as<Compute<T>>(),
          .stride = chunks.width,
          .whole = aligned_rows<T, columns::kN>(args.grad) && aligned_rows<T, columns::kN>(args.x)};
      add_columns(terms, chunks, outs, workspace, stream);
    };
    if (args.centred) {
      add.template operator()<true>({args.weight_grad, args.bias_grad});
    } else {
      add.template operator()<false>({args.weight_grad});
    }
  });
}

}  // namespace tessera::cuda

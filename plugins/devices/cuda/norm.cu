// Layer normalisation of rows and RMSNorm, and the gradients of their inputs. A block takes a row
// and reads it again for each pass: it lies in the cache of the multiprocessor by then.
#include "kernels.hpp"
#include "packs.hpp"
#include "tessera/ops/norm.hpp"

namespace tessera::cuda {
namespace {

template <class T>
struct LayerNorm {
  const T *x, *weight, *bias;
  T* out;
  Compute<T>*mean, *rstd;  // bias and mean only where rows are centred
  i64 rows, width;
  double eps;
  bool whole;
};

/// x̂; only centred rows have a mean.
template <bool kCentred, class C>
__device__ __forceinline__ C normalised(C x, C mean, C rstd) {
  if constexpr (kCentred) {
    return (x - mean) * rstd;
  } else {
    return x * rstd;
  }
}

template <class T, bool kCentred>
__global__ void layernorm(LayerNorm<T> of) {
  using C = Compute<T>;
  constexpr int kN = kPack<T>;
  C* partial = &shared<C>();
  const C per_width = C(1) / static_cast<C>(of.width);
  for (i64 row = blockIdx.x; row < of.rows; row += gridDim.x) {
    const T* x = of.x + row * of.width;
    C mean = 0;
    if constexpr (kCentred) {
      C sum = 0;
      for_packs<kN>(of.width, [&](i64 j, i64 count) {
        C values[kN];
        load(values, x + j, count, of.whole);
        for (int n = 0; n < kN; ++n) sum += values[n];
      });
      mean = per_width * block_sum(sum, partial);
    }
    C squares = 0;
    for_packs<kN>(of.width, [&](i64 j, i64 count) {
      C values[kN];
      load(values, x + j, count, of.whole);
      for (int n = 0; n < kN; ++n) {
        const C centred = n < count ? values[n] - mean : C(0);
        squares += centred * centred;
      }
    });
    const C variance = per_width * block_sum(squares, partial);
    const C rstd = C(1) / std::sqrt(variance + static_cast<C>(of.eps));
    for_packs<kN>(of.width, [&](i64 j, i64 count) {
      C values[kN], weights[kN], biases[kN];
      load(values, x + j, count, of.whole);
      load(weights, of.weight + j, count, of.whole);
      if constexpr (kCentred) load(biases, of.bias + j, count, of.whole);
      for (int n = 0; n < kN; ++n) {
        values[n] = normalised<kCentred>(values[n], mean, rstd) * weights[n];
        if constexpr (kCentred) values[n] += biases[n];
      }
      store(of.out + row * of.width + j, values, count, of.whole);
    });
    if (threadIdx.x == 0) {
      if constexpr (kCentred) of.mean[row] = mean;
      of.rstd[row] = rstd;
    }
  }
}

template <class T>
struct InputGradient {
  const T *grad, *x, *weight;
  const Compute<T>*mean, *rstd;  // mean only where rows are centred
  const T* sum;                  // optional: what the gradient is added to
  T* out;
  i64 rows, width;
  bool whole;
};

template <class C>
struct RowSums {
  C grad, projection;
};

/// With g = grad · weight and x̂ = (x - mean) · rstd:
/// dx = rstd · (g - mean of g - x̂ · mean of (g · x̂)), without the mean of g where rows are not
/// centred.
template <class T, bool kCentred, bool kAdds>
__global__ void input_gradient(InputGradient<T> of) {
  using C = Compute<T>;
  constexpr int kN = kPack<T>;
  auto* partial = &shared<RowSums<C>>();
  const C per_width = C(1) / static_cast<C>(of.width);
  for (i64 row = blockIdx.x; row < of.rows; row += gridDim.x) {
    const C mean = kCentred ? of.mean[row] : C(0), rstd = of.rstd[row];
    const i64 begin = row * of.width;
    // g and x̂ of a pack, 0 beyond the row.
    const auto read = [&](C(&g)[kN], C(&normal)[kN], i64 j, i64 count) {
      C weights[kN];
      load(g, of.grad + begin + j, count, of.whole);
      load(normal, of.x + begin + j, count, of.whole);
      load(weights, of.weight + j, count, of.whole);
      for (int n = 0; n < kN; ++n) {
        g[n] *= weights[n];
        normal[n] = n < count ? normalised<kCentred>(normal[n], mean, rstd) : C(0);
      }
    };
    RowSums<C> sums{};
    for_packs<kN>(of.width, [&](i64 j, i64 count) {
      C g[kN], normal[kN];
      read(g, normal, j, count);
      for (int n = 0; n < kN; ++n) {
        if constexpr (kCentred) sums.grad += g[n];
        sums.projection += g[n] * normal[n];
      }
    });
    sums = block_reduce(sums, partial, RowSums<C>{}, [](const RowSums<C>& each) {
      return RowSums<C>{kCentred ? warp_sum(each.grad) : C(0), warp_sum(each.projection)};
    });
    const C grad = per_width * sums.grad, projection = per_width * sums.projection;
    for_packs<kN>(of.width, [&](i64 j, i64 count) {
      C g[kN], normal[kN];
      read(g, normal, j, count);
      // A sum is rounded before it is added, as an operation of its own would round it.
      for (int n = 0; n < kN; ++n) {
        if constexpr (kCentred) g[n] -= grad;
        g[n] = product(rstd, g[n] - normal[n] * projection);
      }
      if constexpr (kAdds) {
        C others[kN];
        load(others, of.sum + begin + j, count, of.whole);
        for (int n = 0; n < kN; ++n) g[n] += others[n];
      }
      store(of.out + begin + j, g, count, of.whole);
    });
  }
}

/// The shape for blocks that reduce values of type Partial.
template <class T, class Partial>
LaunchShape shape_of(const TensorArg& x) {
  const int threads = threads_for(blocks_for(x.shape[1], kPack<T>));
  return {.blocks = blocks_of_rows(x.shape[0]),
          .threads = threads,
          .shared_bytes = threads / kWarp * static_cast<i64>(sizeof(Partial))};
}

template <bool kAdds, class Args>
void run_input_gradient(const Args& args, const TensorArg& sum, cudaStream_t stream) {
  with_floating(Args::kName, args.x.dtype, [&]<class T>(T) {
    const auto fits = [](const TensorArg& x) { return aligned_rows<T>(x); };
    const InputGradient<T> of{
        .grad = args.grad.template as<T>(),
        .x = args.x.template as<T>(),
        .weight = args.weight.template as<T>(),
        .mean = args.mean.template as<Compute<T>>(),
        .rstd = args.rstd.template as<Compute<T>>(),
        .sum = sum.as<T>(),
        .out = args.out.template as<T>(),
        .rows = args.x.shape[0],
        .width = args.x.shape[1],
        .whole =
            fits(args.grad) && fits(args.x) && fits(args.weight) && fits(sum) && fits(args.out),
    };
    launch(args.centred ? input_gradient<T, true, kAdds> : input_gradient<T, false, kAdds>,
           shape_of<T, RowSums<Compute<T>>>(args.x),
           stream,
           of);
  });
}

}  // namespace

template <>
void run(const LayerNormArgs& args, void*, cudaStream_t stream) {
  with_floating(args.kName, args.x.dtype, [&]<class T>(T) {
    const auto fits = [](const TensorArg& x) { return aligned_rows<T>(x); };
    const LayerNorm<T> of{
        .x = args.x.as<T>(),
        .weight = args.weight.as<T>(),
        .bias = args.bias.as<T>(),
        .out = args.out.as<T>(),
        .mean = args.mean.as<Compute<T>>(),
        .rstd = args.rstd.as<Compute<T>>(),
        .rows = args.x.shape[0],
        .width = args.x.shape[1],
        .eps = args.eps,
        .whole = fits(args.x) && fits(args.weight) && fits(args.bias) && fits(args.out),
    };
    launch(args.centred ? layernorm<T, true> : layernorm<T, false>,
           shape_of<T, Compute<T>>(args.x),
           stream,
           of);
  });
}

template <>
void run(const LayerNormBackwardArgs& args, void*, cudaStream_t stream) {
  run_input_gradient<false>(args, {}, stream);
}

template <>
void run(const LayerNormBackwardAddArgs& args, void*, cudaStream_t stream) {
  run_input_gradient<true>(args, args.sum, stream);
}

}  // namespace tessera::cuda

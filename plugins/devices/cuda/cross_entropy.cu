// Cross entropy over a shard of the vocabulary: a block takes a row. whole_cross_entropy does what
// the others do, with their bits, and finds the row in the cache after its first pass.
#include "kernels.hpp"
#include "packs.hpp"
#include "tessera/ops/cross_entropy.hpp"

namespace tessera::cuda {
namespace {

constexpr int kMostThreads = 512;

template <class T>
struct Logits {
  const T* values;
  i64 rows, width, first, valid;
  bool whole;
};

template <class T>
__device__ Compute<T> largest_of(const Logits<T>& logits, i64 row, Compute<T>* partial) {
  using C = Compute<T>;
  constexpr int kN = kPack<T>;
  C largest = -std::numeric_limits<C>::infinity();
  for_packs<kN>(logits.valid, [&](i64 j, i64 count) {
    C values[kN];
    load(values, logits.values + row * logits.width + j, count, logits.whole);
    for (int n = 0; n < kN; ++n) {
      // A value that is not a number stays.
      if (n < count && (values[n] > largest || values[n] != values[n])) largest = values[n];
    }
  });
  return block_max(largest, partial);
}

template <class C>
struct RowSums {
  C exponentials, target;
};

template <class T>
__device__ RowSums<Compute<T>> sums_of(
    const Logits<T>& logits, i64 row, i64 target, Compute<T> largest, Compute<T>* partial) {
  using C = Compute<T>;
  constexpr int kN = kPack<T>;
  const T* values_of_row = logits.values + row * logits.width;
  C sum = 0;
  for_packs<kN>(logits.valid, [&](i64 j, i64 count) {
    C values[kN];
    load(values, values_of_row + j, count, logits.whole);
    for (int n = 0; n < kN; ++n) {
      if (n < count) sum += std::exp(values[n] - largest);
    }
  });
  const i64 entry = target - logits.first;
  const bool here = entry >= 0 && entry < logits.valid;
  return {block_sum(sum, partial), here ? widen(values_of_row[entry]) - largest : C(0)};
}

template <class T>
struct Gradient {
  const u8* mask;
  const double *inverse_weight, *grad;
  T* out;
};

/// out may be the logits: a thread reads an element before it writes it.
template <class T>
__device__ void write_gradient(const Logits<T>& logits,
                               const Gradient<T>& to,
                               i64 row,
                               i64 target,
                               Compute<T> largest,
                               Compute<T> sum) {
  using C = Compute<T>;
  constexpr int kN = kPack<T>;
  const bool counts = to.mask[row] != 0;
  const double weight = *to.grad * *to.inverse_weight;
  const C scale = static_cast<C>(weight);
  const C share = static_cast<C>(weight / static_cast<double>(sum));
  const i64 entry = target - logits.first;
  for_packs<kN>(logits.width, [&](i64 j, i64 count) {
    const i64 at = row * logits.width + j, valid = counts ? logits.valid - j : 0;
    C values[kN] = {};
    if (valid > 0) load(values, logits.values + at, std::min(valid, count), logits.whole);
    for (int n = 0; n < kN; ++n) {
      if (n >= valid) {
        values[n] = C(0);
        continue;
      }
      values[n] = product(std::exp(values[n] - largest), share) - (j + n == entry ? scale : C(0));
    }
    store(to.out + at, values, count, logits.whole);
  });
}

template <class T>
__global__ void cross_entropy_max(Logits<T> logits, Compute<T>* out) {
  auto* partial = &shared<Compute<T>>();
  for (i64 row = blockIdx.x; row < logits.rows; row += gridDim.x) {
    const Compute<T> largest = largest_of(logits, row, partial);
    if (threadIdx.x == 0) out[row] = largest;
  }
}

template <class T>
__global__ void cross_entropy_sums(Logits<T> logits,
                                   const i64* targets,
                                   const Compute<T>* max,
                                   Compute<T>* out) {
  auto* partial = &shared<Compute<T>>();
  for (i64 row = blockIdx.x; row < logits.rows; row += gridDim.x) {
    const auto sums = sums_of(logits, row, targets[row], max[row], partial);
    if (threadIdx.x == 0) {
      out[2 * row] = sums.exponentials;
      out[2 * row + 1] = sums.target;
    }
  }
}

template <class T>
__global__ void cross_entropy_grad(Logits<T> logits,
                                   const i64* targets,
                                   const Compute<T>* max,
                                   const Compute<T>* sums,
                                   Gradient<T> to) {
  for (i64 row = blockIdx.x; row < logits.rows; row += gridDim.x) {
    write_gradient(logits, to, row, targets[row], max[row], sums[2 * row]);
  }
}

template <class T>
__global__ void whole_cross_entropy(Logits<T> logits,
                                    const i64* targets,
                                    Compute<T>* out,
                                    Gradient<T> to) {
  auto* partial = &shared<Compute<T>>();
  for (i64 row = blockIdx.x; row < logits.rows; row += gridDim.x) {
    const i64 target = targets[row];
    const Compute<T> largest = largest_of(logits, row, partial);
    const auto sums = sums_of(logits, row, target, largest, partial);
    if (threadIdx.x == 0) {
      out[2 * row] = sums.exponentials;
      out[2 * row + 1] = sums.target;
    }
    if (to.out == nullptr) continue;
    __syncthreads();  // all have read the target's logit
    write_gradient(logits, to, row, target, largest, sums.exponentials);
  }
}

/// One block: each thread adds its rows in order, then the block adds the threads' sums.
template <class S>
__global__ void cross_entropy_loss(
    const S* sums, const u8* mask, const double* inverse_weight, i64 rows, bool hits, double* out) {
  double loss = 0;
  for (i64 row = threadIdx.x; row < rows; row += blockDim.x) {
    if (mask[row] == 0) continue;
    const S target = sums[2 * row + 1];
    loss += hits ? static_cast<double>(target == S(0))
                 : std::log(static_cast<double>(sums[2 * row])) - static_cast<double>(target);
  }
  loss = block_sum(loss, &shared<double>());
  if (threadIdx.x == 0) *out = *inverse_weight * loss;
}

template <class T>
Logits<T> logits_of(const TensorArg& logits, i64 first, i64 valid, const TensorArg& out = {}) {
  return {.values = logits.as<T>(),
          .rows = logits.shape[0],
          .width = logits.shape[1],
          .first = first,
          .valid = valid,
          .whole = aligned_rows<T>(logits) && aligned_rows<T>(out)};
}

template <class T, class Args>
Gradient<T> gradient_of(const Args& args) {
  return {.mask = args.mask.template as<u8>(),
          .inverse_weight = args.inverse_weight.template as<double>(),
          .grad = args.grad.template as<double>(),
          .out = args.out.template as<T>()};
}

template <class T>
LaunchShape shape_of(const Logits<T>& logits) {
  const int threads = threads_for(blocks_for(logits.width, kPack<T>), kMostThreads);
  return {.blocks = blocks_of_rows(logits.rows),
          .threads = threads,
          .shared_bytes = threads / kWarp * static_cast<i64>(sizeof(Compute<T>))};
}

}  // namespace

template <>
void run(const CrossEntropyMaxArgs& args, void*, cudaStream_t stream) {
  with_floating(args.kName, args.logits.dtype, [&]<class T>(T) {
    const auto logits = logits_of<T>(args.logits, 0, args.valid);
    launch(cross_entropy_max<T>, shape_of(logits), stream, logits, args.out.as<Compute<T>>());
  });
}

template <>
void run(const CrossEntropySumsArgs& args, void*, cudaStream_t stream) {
  with_floating(args.kName, args.logits.dtype, [&]<class T>(T) {
    const auto logits = logits_of<T>(args.logits, args.first, args.valid);
    launch(cross_entropy_sums<T>,
           shape_of(logits),
           stream,
           logits,
           args.targets.as<i64>(),
           args.max.as<Compute<T>>(),
           args.out.as<Compute<T>>());
  });
}

template <>
void run(const CrossEntropyLossArgs& args, void*, cudaStream_t stream) {
  const i64 rows = args.sums.shape[0];
  const int threads = threads_for(rows, 1024);
  const auto loss = [&]<class S>(S) {
    launch(cross_entropy_loss<S>,
           {.threads = threads, .shared_bytes = threads / kWarp * static_cast<i64>(sizeof(double))},
           stream,
           args.sums.as<S>(),
           args.mask.as<u8>(),
           args.inverse_weight.as<double>(),
           rows,
           args.hits,
           args.out.as<double>());
  };
  args.sums.dtype == DType::fp64 ? loss(double{}) : loss(float{});
}

template <>
void run(const CrossEntropyGradArgs& args, void*, cudaStream_t stream) {
  with_floating(args.kName, args.logits.dtype, [&]<class T>(T) {
    const auto logits = logits_of<T>(args.logits, args.first, args.valid, args.out);
    launch(cross_entropy_grad<T>,
           shape_of(logits),
           stream,
           logits,
           args.targets.as<i64>(),
           args.max.as<Compute<T>>(),
           args.sums.as<Compute<T>>(),
           gradient_of<T>(args));
  });
}

template <>
void run(const WholeCrossEntropyArgs& args, void*, cudaStream_t stream) {
  with_floating(args.kName, args.logits.dtype, [&]<class T>(T) {
    const auto logits = logits_of<T>(args.logits, 0, args.valid, args.out);
    launch(whole_cross_entropy<T>,
           shape_of(logits),
           stream,
           logits,
           args.targets.as<i64>(),
           args.sums.as<Compute<T>>(),
           gradient_of<T>(args));
  });
}

}  // namespace tessera::cuda

// Muon's operations on a GPU.
#include "muon_ops.hpp"
#include "plain_kernel.hpp"
#include "update_rule.hpp"

namespace tessera {

namespace cuda {

namespace rules {

struct MuonStep {
  double step;
};

/// Moves along a gradient that is what remains of it.
struct MuonApply {
  static constexpr int kStates = 0;
  static constexpr bool kScaled = false;
  double scale;

  template <class C>
  __device__ MuonStep factors(const double* scalars) const {
    return {scalars[step_scalar::kLearningRate] * scale};
  }
  template <class C>
  __device__ static C direction(const MuonStep&, C grad, C&, C&) {
    return grad;
  }
};

}  // namespace rules

template <>
i64 Workspace<MuonNormalizeArgs>::bytes(const MuonNormalizeArgs& args);

namespace {

constexpr int kThreads = 256;
constexpr int kN = 4;                              // neighbouring elements of a thread
constexpr i64 kManyBlocks = 8 * kMultiprocessors;  // of a grid that walks

/// Calls f(element, elements from there on) for each pack that this thread of the grid takes.
template <class F>
__device__ __forceinline__ void for_packs_of_grid(i64 elements, F f) {
  const i64 step = static_cast<i64>(gridDim.x) * kThreads * kN;
  i64 i = (static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x) * kN;
  for (; i < elements; i += step) f(i, elements - i);
}
i64 blocks_of(i64 elements) { return std::min(blocks_for(elements, kThreads * kN), kManyBlocks); }

template <class T, class S>
__global__ void add_momentum(
    ShardTable table, const double* scalars, T* all_grads, S* all_momenta, T beta) {
  const bool skip = scalars[step_scalar::kFoundInf] != 0;
  const T scale = static_cast<T>(scalars[step_scalar::kGradientScale]);
  for_each_shard(table, [&](const ShardRun& run) {
    T* grads = all_grads + run.grad;
    S* momenta = all_momenta + run.state;
    const bool whole = aligned<T, kN>(grads) && aligned<S, kN>(momenta);
    for_packs<kN>(run.length, [&](i64 i, i64 count) {
      T g[kN] = {}, m[kN];
      if (!skip) {
        load(g, grads + i, count, whole);
        load(m, momenta + i, count, whole);
        for (int n = 0; n < kN; ++n) {
          const T now = product(g[n], scale);
          m[n] = multiply_add(beta, m[n], now);
          g[n] = multiply_add(beta, m[n], now);
        }
        store(momenta + i, m, count, whole);
      }
      store(grads + i, g, count, whole);
    });
  });
}

/// partial[block] = the sum of the squares that the block takes.
template <class T>
__global__ void partial_squares(const T* x, i64 elements, bool whole, double* partial) {
  double sum = 0;
  for_packs_of_grid(elements, [&](i64 i, i64 count) {
    double values[kN];
    load(values, x + i, count, whole);
    for (int n = 0; n < kN; ++n) sum = multiply_add(values[n], values[n], sum);
  });
  sum = block_sum(sum, &shared<double>());
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

/// Launched with the blocks of partial_squares.
template <class T>
__global__ void divide_by_norm(T* x, i64 elements, bool whole, const double* partial) {
  double sum = 0;
  for (i64 block = threadIdx.x; block < gridDim.x; block += kThreads) sum += partial[block];
  sum = block_sum(sum, &shared<double>());
  const T by = static_cast<T>(1 / (std::sqrt(sum) + 1e-7));
  for_packs_of_grid(elements, [&](i64 i, i64 count) {
    T values[kN];
    load(values, x + i, count, whole);
    for (int n = 0; n < kN; ++n) values[n] *= by;
    store(x + i, values, count, whole);
  });
}

template <class T>
__global__ void combine(const T* x, const T* y, T* out, i64 elements, T a, T b, bool whole) {
  for_packs_of_grid(elements, [&](i64 i, i64 count) {
    T left[kN], right[kN];
    load(left, x + i, count, whole);
    load(right, y + i, count, whole);
    for (int n = 0; n < kN; ++n) left[n] = multiply_add(a, left[n], product(b, right[n]));
    store(out + i, left, count, whole);
  });
}

template <class F>
void with_real(std::string_view operation, DType dtype, F&& f) {
  if (dtype == DType::fp64) return f(double{});
  require(dtype == DType::fp32,
          "{}: needs precision.main = \"fp32\" or \"fp64\", not {}",
          operation,
          dtype_name(dtype));
  f(float{});
}

}  // namespace

template <>
i64 Workspace<MuonNormalizeArgs>::bytes(const MuonNormalizeArgs& args) {
  return blocks_of(args.x.elements()) * static_cast<i64>(sizeof(double));
}

template <>
void run(const MuonMomentumArgs& args, void*, cudaStream_t stream) {
  const ShardTable table(args.ranges, args.hyper);
  if (table.count == 0) return;
  with_real(args.kName, args.grad.dtype, [&]<class T>(T) {
    with_floating(args.kName, args.momentum.dtype, [&]<class S>(S) {
      launch(add_momentum<T, S>,
             {.blocks = shard_blocks(args.grad.elements()), .threads = kThreads},
             stream,
             table,
             args.scalars.as<double>(),
             args.grad.as<T>(),
             args.momentum.as<S>(),
             args.beta);
    });
  });
}

template <>
void run(const MuonNormalizeArgs& args, void* workspace, cudaStream_t stream) {
  const i64 elements = args.x.elements();
  with_real(args.kName, args.x.dtype, [&]<class T>(T) {
    T* x = args.x.as<T>();
    const bool whole = aligned<T, kN>(x);
    double* partial = static_cast<double*>(workspace);
    const LaunchShape shape{.blocks = blocks_of(elements),
                            .threads = kThreads,
                            .shared_bytes = kThreads / kWarp * static_cast<i64>(sizeof(double))};
    launch(partial_squares<T>, shape, stream, x, elements, whole, partial);
    launch(divide_by_norm<T>, shape, stream, x, elements, whole, partial);
  });
}

template <>
void run(const MuonCombineArgs& args, void*, cudaStream_t stream) {
  with_real(args.kName, args.x.dtype, [&]<class T>(T) {
    const T *x = args.x.as<T>(), *y = args.y.as<T>();
    T* out = args.out.as<T>();
    launch(combine<T>,
           {.blocks = blocks_of(args.x.elements()), .threads = kThreads},
           stream,
           x,
           y,
           out,
           args.x.elements(),
           args.a,
           args.b,
           aligned<T, kN>(x) && aligned<T, kN>(y) && aligned<T, kN>(out));
  });
}

template <>
void run(const MuonApplyArgs& args, void*, cudaStream_t stream) {
  rules::with_types(args, args.main.dtype, [&]<class T, class S>(T, S) {
    if constexpr (std::is_same_v<T, S>) {
      rules::launch_update<T, T>(args, rules::MuonApply{args.scale}, {}, {}, stream);
    }
  });
}

}  // namespace cuda

std::vector<Kernel> muon_gpu_kernels() {
  std::vector<Kernel> kernels;
  kernels.push_back(cuda::plain_kernel<MuonMomentumArgs>());
  kernels.push_back(cuda::plain_kernel<MuonNormalizeArgs>());
  kernels.push_back(cuda::plain_kernel<MuonCombineArgs>());
  kernels.push_back(cuda::plain_kernel<MuonApplyArgs>());
  return kernels;
}

}  // namespace tessera

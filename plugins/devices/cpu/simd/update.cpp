#include "simd/kernels_of_isa.hpp"
#include "simd/storage.hpp"
#include "tessera/for_each_shard.hpp"
#include "tessera/parallel_for.hpp"

namespace tessera::cpu::TESSERA_ISA {
namespace {

constexpr i64 kGrain = 8192;

/// a · b + c, rounded once where the processor can. Left to the compiler, whole vectors and the
/// last one of a shard may round differently, and then bits depend on where a shard is cut.
[[gnu::always_inline]] inline F multiply_add(F a, F b, F c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__FMA__)
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}

double power(double base, i64 exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2, base *= base) {
    if (exponent % 2 == 1) result *= base;
  }
  return result;
}

template <class Args>
void zero_gradients(const Args& args) {
  float* grad = args.grad.template as<float>();
  const auto zero = [=](const ShardRun& run) {
    __builtin_memset(grad + run.grad, 0, static_cast<std::size_t>(run.length) * sizeof(float));
  };
  for_each_shard(args.ranges, args.hyper, 4 * kGrain, zero);
}

double block_squares(const float* x, i64 n) {
  constexpr int kSums = 32;
  double sums[kSums] = {};
  i64 i = 0;
  for (; i + kSums <= n; i += kSums) {
    for (int s = 0; s < kSums; ++s) {
      const double value = x[i + s];
      sums[s] += value * value;
    }
  }
  double total = 0;
  for (; i < n; ++i) total += static_cast<double>(x[i]) * x[i];
  for (const double sum : sums) total += sum;
  return total;
}

/// State: the moments as they lie in memory.
template <class State>
void adamw(const AdamWArgs& args) {
  const double* scalars = args.scalars.as<const double>();
  float* grad = args.grad.as<float>();
  if (scalars[step_scalar::kFoundInf] != 0) {
    zero_gradients(args);
    return;
  }
  const i64 step = static_cast<i64>(scalars[step_scalar::kSteps]);
  const double correction1 = 1 - power(args.beta1, step), correction2 = 1 - power(args.beta2, step);
  const double lr = scalars[step_scalar::kLearningRate];
  const float eps = static_cast<float>(args.eps * __builtin_sqrt(correction2));
  const float unscale = static_cast<float>(scalars[step_scalar::kGradientScale]);
  const float beta1 = static_cast<float>(args.beta1), beta2 = static_cast<float>(args.beta2);
  const float rest1 = static_cast<float>(1 - args.beta1),
              rest2 = static_cast<float>(1 - args.beta2);
  float* main = args.main.as<float>();
  State* first = args.first_moment.as<State>();
  State* second = args.second_moment.as<State>();
  const TensorArg compute = args.compute;
  const auto update = [=](const ShardRun& run) {
    // w -= rate · (m / c1) / (sqrt(v / c2) + eps), with both corrections drawn out of the loop.
    const double rate = lr * run.lr_scale;
    const float step_size = static_cast<float>(rate * __builtin_sqrt(correction2) / correction1);
    const float decay = static_cast<float>(rate * run.weight_decay);
    float *grads = grad + run.grad, *mains = main + run.main;
    State *firsts = first + run.state, *seconds = second + run.state;
    for_vectors(run.length, [=](i64 i, auto count) {
      const F g = load(grads + i, count) * unscale;
      const F m = load(firsts + i, count) * beta1 + g * rest1;
      const F v = load(seconds + i, count) * beta2 + g * g * rest2;
      const F old = load(mains + i, count);
      const F w = old - (old * decay + step_size * m / (square_root(v) + eps));
      store(firsts + i, m, count);
      store(seconds + i, v, count);
      store(mains + i, w, count);
      store_to(compute, run.grad + i, w, count);
      store(grads + i, F{}, count);
    });
  };
  for_each_shard(args.ranges, args.hyper, kGrain, update);
}

template <class State>
void sgd(const SgdArgs& args) {
  const double* scalars = args.scalars.as<const double>();
  float* grad = args.grad.as<float>();
  if (scalars[step_scalar::kFoundInf] != 0) {
    zero_gradients(args);
    return;
  }
  const double lr = scalars[step_scalar::kLearningRate];
  const float unscale = static_cast<float>(scalars[step_scalar::kGradientScale]);
  const float momentum = static_cast<float>(args.momentum);
  float* main = args.main.as<float>();
  State* buffer = args.momentum_buffer.as<State>();
  const TensorArg compute = args.compute;
  const auto update = [=](const ShardRun& run) {
    const double rate = lr * run.lr_scale;
    const float step_size = static_cast<float>(rate);
    const float decay = static_cast<float>(rate * run.weight_decay);
    float *grads = grad + run.grad, *mains = main + run.main;
    State* buffers = buffer == nullptr ? nullptr : buffer + run.state;
    for_vectors(run.length, [=](i64 i, auto count) {
      F g = load(grads + i, count) * unscale;
      if (buffers != nullptr) {
        g = multiply_add(load(buffers + i, count), broadcast(momentum), g);
        store(buffers + i, g, count);
      }
      const F old = load(mains + i, count);
      const F w = old - (old * decay + step_size * g);
      store(mains + i, w, count);
      store_to(compute, run.grad + i, w, count);
      store(grads + i, F{}, count);
    });
  };
  for_each_shard(args.ranges, args.hyper, kGrain, update);
}

}  // namespace

template <>
i64 workspace_bytes(const SumSquaresArgs& args) {
  // Blocks begin anew in each range.
  const i64 ranges = args.ranges ? args.ranges.shape[0] : 1;
  return (args.x.elements() / kSquareBlock + ranges) * static_cast<i64>(sizeof(double)) +
         (ranges + 1) * static_cast<i64>(sizeof(i64));
}

template <>
void run(const SumSquaresArgs& args, void* workspace) {
  const i64 whole[] = {0, args.x.elements()};
  const i64 ranges = args.ranges ? args.ranges.shape[0] : 1;
  const i64* range = args.ranges ? args.ranges.as<const i64>() : whole;
  const float* x = args.x.as<const float>();
  i64* first_block = static_cast<i64*>(workspace);  // of each range
  double* partial = reinterpret_cast<double*>(first_block + ranges + 1);
  first_block[0] = 0;
  for (i64 r = 0; r < ranges; ++r) {
    first_block[r + 1] = first_block[r] + (range[2 * r + 1] + kSquareBlock - 1) / kSquareBlock;
  }
  parallel_for(first_block[ranges], 2, [=](i64 begin, i64 end) {
    i64 r = 0;
    for (i64 block = begin; block < end; ++block) {
      while (first_block[r + 1] <= block) ++r;
      const i64 from = (block - first_block[r]) * kSquareBlock;
      const i64 to =
          from + kSquareBlock < range[2 * r + 1] ? from + kSquareBlock : range[2 * r + 1];
      partial[block] = block_squares(x + range[2 * r] + from, to - from);
    }
  });
  double* out = args.out.as<double>();
  for (i64 r = 0; r < ranges; ++r) {
    double total = 0;
    for (i64 block = first_block[r]; block < first_block[r + 1]; ++block) total += partial[block];
    *out += total;
  }
}

template <>
void run(const BlockSquaresArgs& args) {
  const float* x = args.x.as<const float>();
  const i64* blocks = args.blocks.as<const i64>();
  double* out = args.out.as<double>();
  parallel_for(args.blocks.shape[0], 2, [=](i64 begin, i64 end) {
    for (const i64* b = blocks + 3 * begin; b < blocks + 3 * end; b += 3) {
      out[b[2]] = block_squares(x + b[0], b[1]);
    }
  });
}

template <>
void run(const AdamWArgs& args) {
  with_storage(args.first_moment.dtype, [&]<class State>(State) { adamw<State>(args); });
}

template <>
void run(const SgdArgs& args) {
  const DType state = args.momentum_buffer ? args.momentum_buffer.dtype : DType::fp32;
  with_storage(state, [&]<class State>(State) { sgd<State>(args); });
}

}  // namespace tessera::cpu::TESSERA_ISA

#include "simd/kernels_of_isa.hpp"
#include "simd/vector.hpp"
#include "tessera/parallel_for.hpp"

namespace tessera::cpu::TESSERA_ISA {
namespace {

constexpr i64 kGrain = 8192;
constexpr i64 kSumBlock = 8192;  // elements of one partial sum

double power(double base, i64 exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2, base *= base) {
    if (exponent % 2 == 1) result *= base;
  }
  return result;
}

void zero(float* p, i64 n) {
  parallel_for(n, 4 * kGrain, [=](i64 begin, i64 end) {
    __builtin_memset(p + begin, 0, static_cast<std::size_t>(end - begin) * sizeof(float));
  });
}

}  // namespace

template <>
i64 workspace_bytes(const SumSquaresArgs& args) {
  return (args.x.elements() + kSumBlock - 1) / kSumBlock * static_cast<i64>(sizeof(double));
}

template <>
void run(const SumSquaresArgs& args, void* workspace) {
  const i64 n = args.x.elements(), blocks = (n + kSumBlock - 1) / kSumBlock;
  const float* x = args.x.as<const float>();
  double* partial = static_cast<double*>(workspace);
  parallel_for(blocks, 2, [=](i64 begin, i64 end) {
    for (i64 block = begin; block < end; ++block) {
      const i64 last = (block + 1) * kSumBlock < n ? (block + 1) * kSumBlock : n;
      constexpr int kSums = 32;
      double sums[kSums] = {};
      i64 i = block * kSumBlock;
      for (; i + kSums <= last; i += kSums) {
        for (int s = 0; s < kSums; ++s) {
          const double value = x[i + s];
          sums[s] += value * value;
        }
      }
      double total = 0;
      for (; i < last; ++i) total += static_cast<double>(x[i]) * x[i];
      for (const double sum : sums) total += sum;
      partial[block] = total;
    }
  });
  double total = 0;
  for (i64 block = 0; block < blocks; ++block) total += partial[block];
  *args.out.as<double>() += total;
}

template <>
void run(const AdamWArgs& args) {
  const double* scalars = args.scalars.as<const double>();
  const i64 n = args.main.elements();
  float* grad = args.grad.as<float>();
  if (scalars[step_scalar::kFoundInf] != 0) {
    zero(grad, n);
    return;
  }
  const i64 step = static_cast<i64>(scalars[step_scalar::kSteps]);
  const double rate = scalars[step_scalar::kLearningRate] * args.lr_scale;
  const double correction1 = 1 - power(args.beta1, step), correction2 = 1 - power(args.beta2, step);
  // w -= rate · (m / c1) / (sqrt(v / c2) + eps), with both corrections drawn out of the loop.
  const float step_size = static_cast<float>(rate * __builtin_sqrt(correction2) / correction1);
  const float eps = static_cast<float>(args.eps * __builtin_sqrt(correction2));
  const float decay = static_cast<float>(rate * args.weight_decay);
  const float unscale = static_cast<float>(scalars[step_scalar::kGradientScale]);
  const float beta1 = static_cast<float>(args.beta1), beta2 = static_cast<float>(args.beta2);
  const float rest1 = static_cast<float>(1 - args.beta1),
              rest2 = static_cast<float>(1 - args.beta2);
  float* main = args.main.as<float>();
  float* first = args.first_moment.as<float>();
  float* second = args.second_moment.as<float>();
  float* compute = args.compute.as<float>();
  parallel_for(n, kGrain, [=](i64 begin, i64 end) {
    for_vectors(end - begin, [=](i64 offset, auto count) {
      const i64 i = begin + offset;
      const F g = load(grad + i, count) * unscale;
      const F m = load(first + i, count) * beta1 + g * rest1;
      const F v = load(second + i, count) * beta2 + g * g * rest2;
      const F old = load(main + i, count);
      const F w = old - (old * decay + step_size * m / (square_root(v) + eps));
      store(first + i, m, count);
      store(second + i, v, count);
      store(main + i, w, count);
      if (compute != nullptr) store(compute + i, w, count);
      store(grad + i, F{}, count);
    });
  });
}

template <>
void run(const SgdArgs& args) {
  const double* scalars = args.scalars.as<const double>();
  const i64 n = args.main.elements();
  float* grad = args.grad.as<float>();
  if (scalars[step_scalar::kFoundInf] != 0) {
    zero(grad, n);
    return;
  }
  const double rate = scalars[step_scalar::kLearningRate] * args.lr_scale;
  const float step_size = static_cast<float>(rate);
  const float decay = static_cast<float>(rate * args.weight_decay);
  const float unscale = static_cast<float>(scalars[step_scalar::kGradientScale]);
  const float momentum = static_cast<float>(args.momentum);
  float* main = args.main.as<float>();
  float* buffer = args.momentum_buffer.as<float>();
  float* compute = args.compute.as<float>();
  parallel_for(n, kGrain, [=](i64 begin, i64 end) {
    for_vectors(end - begin, [=](i64 offset, auto count) {
      const i64 i = begin + offset;
      F g = load(grad + i, count) * unscale;
      if (buffer != nullptr) {
        g += load(buffer + i, count) * momentum;
        store(buffer + i, g, count);
      }
      const F old = load(main + i, count);
      const F w = old - (old * decay + step_size * g);
      store(main + i, w, count);
      if (compute != nullptr) store(compute + i, w, count);
      store(grad + i, F{}, count);
    });
  });
}

}  // namespace tessera::cpu::TESSERA_ISA

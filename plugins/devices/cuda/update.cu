// The rules of optimizers on all shards at once: adamw, sgd.
#include "kernels.hpp"
#include "update_rule.hpp"

namespace tessera::cuda {

// Rules have names, because kernels take them as template arguments.
namespace rules {

template <class C>
struct AdamWFactors {
  double step;  ///< of the directions, for each unit of a shard's scale of the learning rate
  C beta1, rest1, beta2, rest2, eps;
};

/// w -= rate · (m / c1) / (sqrt(v / c2) + eps), with both corrections drawn out of the loop.
struct AdamW {
  static constexpr int kStates = 2;
  static constexpr bool kScaled = true;
  double beta1, beta2, eps;

  template <class C>
  __device__ AdamWFactors<C> factors(const double* scalars) const {
    const auto steps = static_cast<i64>(scalars[step_scalar::kSteps]);
    const double root = std::sqrt(1 - power(beta2, steps));
    return {scalars[step_scalar::kLearningRate] * root / (1 - power(beta1, steps)),
            static_cast<C>(beta1),
            static_cast<C>(1 - beta1),
            static_cast<C>(beta2),
            static_cast<C>(1 - beta2),
            static_cast<C>(eps * root)};
  }
  template <class C>
  __device__ static C direction(const AdamWFactors<C>& of, C grad, C& first, C& second) {
    first = multiply_add(of.beta1, first, of.rest1 * grad);
    second = multiply_add(of.beta2, second, of.rest2 * grad * grad);
    return first / (std::sqrt(second) + of.eps);
  }

 private:
  __device__ static double power(double base, i64 exponent) {
    double result = 1;
    for (; exponent > 0; exponent /= 2, base *= base) {
      if (exponent % 2 == 1) result *= base;
    }
    return result;
  }
};

template <class C>
struct SgdFactors {
  double step;
  C momentum;
};

template <bool kMomentum>
struct Sgd {
  static constexpr int kStates = kMomentum ? 1 : 0;
  static constexpr bool kScaled = true;
  double momentum;

  template <class C>
  __device__ SgdFactors<C> factors(const double* scalars) const {
    return {scalars[step_scalar::kLearningRate], static_cast<C>(momentum)};
  }
  template <class C>
  __device__ static C direction(const SgdFactors<C>& of, C grad, C& buffer, C&) {
    if constexpr (kMomentum) grad = buffer = multiply_add(of.momentum, buffer, grad);
    return grad;
  }
};

}  // namespace rules

template <>
void run(const AdamWArgs& args, void*, cudaStream_t stream) {
  const rules::AdamW rule{args.beta1, args.beta2, args.eps};
  rules::with_types(args, args.first_moment.dtype, [&]<class T, class S>(T, S) {
    rules::launch_update<T, S>(args, rule, args.first_moment, args.second_moment, stream);
  });
}

template <>
void run(const SgdArgs& args, void*, cudaStream_t stream) {
  if (args.momentum_buffer) {
    rules::with_types(args, args.momentum_buffer.dtype, [&]<class T, class S>(T, S) {
      const rules::Sgd<true> rule{args.momentum};
      rules::launch_update<T, S>(args, rule, args.momentum_buffer, {}, stream);
    });
  } else {
    rules::with_types(args, args.main.dtype, [&]<class T, class S>(T, S) {
      if constexpr (std::is_same_v<T, S>) {
        rules::launch_update<T, T>(args, rules::Sgd<false>{0}, {}, {}, stream);
      }
    });
  }
}

}  // namespace tessera::cuda

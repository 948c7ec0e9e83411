// Lion on a GPU.
#include "lion.hpp"
#include "plain_kernel.hpp"
#include "update_rule.hpp"

namespace tessera {

namespace cuda::rules {

template <class C>
struct LionFactors {
  double step;
  C beta1, rest1, beta2, rest2;
};

struct Lion {
  static constexpr int kStates = 1;
  static constexpr bool kScaled = true;
  double beta1, beta2;

  template <class C>
  __device__ LionFactors<C> factors(const double* scalars) const {
    return {scalars[step_scalar::kLearningRate],
            static_cast<C>(beta1),
            static_cast<C>(1 - beta1),
            static_cast<C>(beta2),
            static_cast<C>(1 - beta2)};
  }
  template <class C>
  __device__ static C direction(const LionFactors<C>& of, C grad, C& momentum, C&) {
    const C mixed = multiply_add(of.beta1, momentum, product(of.rest1, grad));
    momentum = multiply_add(of.beta2, momentum, product(of.rest2, grad));
    return mixed > C(0) ? C(1) : (mixed < C(0) ? C(-1) : C(0));
  }
};

}  // namespace cuda::rules

template <>
void cuda::run(const LionArgs& args, void*, cudaStream_t stream) {
  const rules::Lion rule{args.beta1, args.beta2};
  rules::with_types(args, args.momentum.dtype, [&]<class T, class S>(T, S) {
    rules::launch_update<T, S>(args, rule, args.momentum, {}, stream);
  });
}

Kernel lion_gpu_kernel() { return cuda::plain_kernel<LionArgs>(); }

}  // namespace tessera

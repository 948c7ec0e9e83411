#include "simd/gelu.hpp"
#include "simd/kernels_of_isa.hpp"
#include "simd/rows.hpp"
#include "tessera/parallel_for.hpp"

namespace tessera::cpu::TESSERA_ISA {
namespace {

template <class T>
void sum_choices(const UnpermuteRowsArgs& args) {
  const auto y = rows_of<const T>(args.y);
  const auto out = rows_of<T>(args.out);
  const auto inverse = rows_of<const i32>(args.inverse);
  parallel_for(out.n, row_grain(out.width * inverse.width), [=](i64 begin, i64 end) {
    for (i64 row = begin; row < end; ++row) {
      const i32* places = inverse[row];
      T* to = out[row];
      for_vectors(out.width, [=](i64 j, auto count) {
        F total = {};
        for (i64 c = 0; c < inverse.width; ++c) {
          if (places[c] >= 0 && places[c] < y.n) total += load(y[places[c]] + j, count);
        }
        store(to + j, total, count);
      });
    }
  });
}

/// activation(x): its value and derivative from one sigmoid.
struct Slope {
  F value, derivative;
};
[[gnu::always_inline]] inline Slope silu(F x) {
  const F s = sigmoid(x);
  return {x * s, s * (1.0F + x * (1.0F - s))};
}

[[gnu::always_inline]] inline float weight_of(const float* weights, i64 row) {
  return weights != nullptr ? weights[row] : 1.0F;
}

template <class T>
void activate(const WeightedActivationArgs& args) {
  const auto x = rows_of<const T>(args.x);
  const auto out = rows_of<T>(args.out);
  const float* weights = args.weights.as<const float>();
  const bool gated = args.activation == Activation::swiglu;
  parallel_for(out.n, row_grain(2 * out.width), [=](i64 begin, i64 end) {
    for (i64 row = begin; row < end; ++row) {
      const T *from = x[row], *up = from + out.width;
      T* to = out[row];
      const float weight = weight_of(weights, row);
      if (gated) {
        for_vectors(out.width, [=](i64 j, auto count) {
          const F gate = load(from + j, count);
          store(to + j, weight * (gate * sigmoid(gate) * load(up + j, count)), count);
        });
      } else {
        for_vectors(out.width, [=](i64 j, auto count) {
          store(to + j, weight * gelu_of<T>(load(from + j, count)), count);
        });
      }
    }
  });
}

template <class T>
void activation_gradient(const WeightedActivationBackwardArgs& args) {
  const auto x = rows_of<const T>(args.x);
  const auto grad = rows_of<const T>(args.grad);
  const auto x_grad = rows_of<T>(args.x_grad);
  const float* weights = args.weights.as<const float>();
  float* weights_grad = args.weights_grad.as<float>();
  const bool gated = args.activation == Activation::swiglu;
  const i64 f = grad.width;
  parallel_for(grad.n, row_grain(4 * f), [=](i64 begin, i64 end) {
    for (i64 row = begin; row < end; ++row) {
      const T *from = x[row], *up = from + f, *g = grad[row];
      T *to = x_grad[row], *up_to = to + f;
      const float weight = weight_of(weights, row);
      F total = {};
      if (gated) {
        for_vectors(f, [&](i64 j, auto count) {
          const Slope slope = silu(load(from + j, count));
          const F u = load(up + j, count), gj = load(g + j, count);
          total += keep(gj * slope.value * u, count);
          store(to + j, weight * (gj * slope.derivative * u), count);
          store(up_to + j, weight * (gj * slope.value), count);
        });
      } else {
        for_vectors(f, [&](i64 j, auto count) {
          const F xj = load(from + j, count), gj = load(g + j, count);
          total += keep(gj * gelu_of<T>(xj), count);
          store(to + j, weight * (gj * gelu_derivative<T>(xj)), count);
        });
      }
      if (weights_grad != nullptr) weights_grad[row] = sum(total);
    }
  });
}

}  // namespace

template <>
void run(const UnpermuteRowsArgs& args) {
  with_storage(args.y.dtype, [&]<class T>(T) { sum_choices<T>(args); });
}

template <>
void run(const WeightedActivationArgs& args) {
  with_storage(args.x.dtype, [&]<class T>(T) { activate<T>(args); });
}

template <>
void run(const WeightedActivationBackwardArgs& args) {
  with_storage(args.x.dtype, [&]<class T>(T) { activation_gradient<T>(args); });
}

}  // namespace tessera::cpu::TESSERA_ISA

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

/// A function of a gate: its value, and with its derivative. Results are stored as T.
struct Slope {
  F value, derivative;
};
struct Silu {
  template <class T>
  [[gnu::always_inline]] static F of(F x) {
    return x * sigmoid(x);
  }
  template <class T>
  [[gnu::always_inline]] static Slope slope(F x) {
    const F s = sigmoid(x);
    return {x * s, s * (1.0F + x * (1.0F - s))};
  }
};
struct Gelu {
  template <class T>
  [[gnu::always_inline]] static F of(F x) {
    return gelu_of<T>(x);
  }
  template <class T>
  [[gnu::always_inline]] static Slope slope(F x) {
    return {gelu_of<T>(x), gelu_derivative<T>(x)};
  }
};

[[gnu::always_inline]] inline float weight_of(const float* weights, i64 row) {
  return weights != nullptr ? weights[row] : 1.0F;
}

/// Calls f with the function of the gate, or of what there is without one.
template <class Call>
void with_function(Activation activation, Call&& f) {
  if (activation == Activation::swiglu) {
    f(Silu());
  } else {
    f(Gelu());
  }
}

template <class T, class Function>
void activate(const WeightedActivationArgs& args) {
  const auto x = rows_of<const T>(args.x);
  const auto out = rows_of<T>(args.out);
  const float* weights = args.weights.as<const float>();
  const bool gated = is_gated(args.activation);
  parallel_for(out.n, row_grain(2 * out.width), [=](i64 begin, i64 end) {
    for (i64 row = begin; row < end; ++row) {
      const T *from = x[row], *up = from + out.width;
      T* to = out[row];
      const float weight = weight_of(weights, row);
      if (gated) {
        for_vectors(out.width, [=](i64 j, auto count) {
          const F gate = load(from + j, count);
          store(to + j, weight * (Function::template of<T>(gate) * load(up + j, count)), count);
        });
      } else {
        for_vectors(out.width, [=](i64 j, auto count) {
          store(to + j, weight * Function::template of<T>(load(from + j, count)), count);
        });
      }
    }
  });
}

template <class T, class Function>
void activation_gradient(const WeightedActivationBackwardArgs& args) {
  const auto x = rows_of<const T>(args.x);
  const auto grad = rows_of<const T>(args.grad);
  const auto x_grad = rows_of<T>(args.x_grad);
  const float* weights = args.weights.as<const float>();
  float* weights_grad = args.weights_grad.as<float>();
  const bool gated = is_gated(args.activation);
  const i64 f = grad.width;
  parallel_for(grad.n, row_grain(4 * f), [=](i64 begin, i64 end) {
    for (i64 row = begin; row < end; ++row) {
      const T *from = x[row], *up = from + f, *g = grad[row];
      T *to = x_grad[row], *up_to = to + f;
      const float weight = weight_of(weights, row);
      F total = {};
      if (gated) {
        for_vectors(f, [&](i64 j, auto count) {
          const Slope slope = Function::template slope<T>(load(from + j, count));
          const F u = load(up + j, count), gj = load(g + j, count);
          total += keep(gj * slope.value * u, count);
          store(to + j, weight * (gj * slope.derivative * u), count);
          store(up_to + j, weight * (gj * slope.value), count);
        });
      } else {
        for_vectors(f, [&](i64 j, auto count) {
          const Slope slope = Function::template slope<T>(load(from + j, count));
          const F gj = load(g + j, count);
          total += keep(gj * slope.value, count);
          store(to + j, weight * (gj * slope.derivative), count);
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
  with_storage(args.x.dtype, [&]<class T>(T) {
    with_function(args.activation, [&]<class Function>(Function) { activate<T, Function>(args); });
  });
}

template <>
void run(const WeightedActivationBackwardArgs& args) {
  with_storage(args.x.dtype, [&]<class T>(T) {
    with_function(args.activation,
                  [&]<class Function>(Function) { activation_gradient<T, Function>(args); });
  });
}

}  // namespace tessera::cpu::TESSERA_ISA

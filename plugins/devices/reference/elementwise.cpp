#include <cmath>
#include <numbers>

#include "elements.hpp"
#include "kernels.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/parallel_for.hpp"

namespace tessera::reference {
namespace {

constexpr double kCubic = 0.044715;
constexpr double kSqrt2OverPi = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;

/// Φ(x), the share of the standard normal distribution below x; no cancellation where it is small.
double normal_share(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

/// out[i] = f(x[i])
template <class F>
void unary(std::string_view name, const TensorArg& x, const TensorArg& out, F&& f) {
  with_floating(name, x.dtype, [&]<class T>(T) {
    const T* from = x.as<const T>();
    T* to = out.as<T>();
    parallel_for(x.elements(), kGrain, [&](i64 begin, i64 end) {
      for (i64 i = begin; i < end; ++i) to[i] = static_cast<T>(f(static_cast<double>(from[i])));
    });
  });
}

/// out[i] = f(a[i], b[i])
template <class F>
void binary(
    std::string_view name, const TensorArg& a, const TensorArg& b, const TensorArg& out, F&& f) {
  with_floating(name, a.dtype, [&]<class T>(T) {
    const T *left = a.as<const T>(), *right = b.as<const T>();
    T* to = out.as<T>();
    parallel_for(a.elements(), kGrain, [&](i64 begin, i64 end) {
      for (i64 i = begin; i < end; ++i) {
        to[i] = static_cast<T>(f(static_cast<double>(left[i]), static_cast<double>(right[i])));
      }
    });
  });
}

}  // namespace

template <>
void run(const AddArgs& args) {
  binary(args.kName, args.a, args.b, args.out, [](double a, double b) { return a + b; });
}

template <>
void run(const MultiplyArgs& args) {
  binary(args.kName, args.a, args.b, args.out, [](double a, double b) { return a * b; });
}

template <>
void run(const ScaleArgs& args) {
  unary(args.kName, args.x, args.out, [&](double x) { return args.factor * x; });
}

template <>
void run(const GeluArgs& args) {
  unary(args.kName, args.x, args.out, [](double x) {
    return 0.5 * x * (1 + std::tanh(kSqrt2OverPi * (x + kCubic * x * x * x)));
  });
}

template <>
void run(const GeluBackwardArgs& args) {
  binary(args.kName, args.grad, args.x, args.out, [](double grad, double x) {
    const double t = std::tanh(kSqrt2OverPi * (x + kCubic * x * x * x));
    const double inner = kSqrt2OverPi * (1 + 3 * kCubic * x * x);
    return grad * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner);
  });
}

template <>
void run(const GeluErfArgs& args) {
  unary(args.kName, args.x, args.out, [](double x) { return x * normal_share(x); });
}

template <>
void run(const GeluErfBackwardArgs& args) {
  binary(args.kName, args.grad, args.x, args.out, [](double grad, double x) {
    constexpr double kDensityAtZero = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
    return grad * (normal_share(x) + x * kDensityAtZero * std::exp(-0.5 * x * x));
  });
}

template <>
void run(const TanhArgs& args) {
  unary(args.kName, args.x, args.out, [](double x) { return std::tanh(x); });
}

template <>
void run(const TanhBackwardArgs& args) {
  binary(args.kName, args.grad, args.x, args.out, [](double grad, double x) {
    const double inverse = 1 / std::cosh(x);  // 1 - tanh² would cancel
    return grad * inverse * inverse;
  });
}

}  // namespace tessera::reference

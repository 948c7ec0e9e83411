#include "tessera/ops/moe.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "elements.hpp"
#include "kernels.hpp"
#include "tessera/parallel_for.hpp"

namespace tessera::reference {
namespace {

/// Calls f(expert, first row, end of its rows) for each expert.
template <class F>
void for_experts(const TensorArg& counts, i64 rows, F&& f) {
  i64 begin = 0;
  for (i64 e = 0; e < counts.shape[0]; ++e) {
    const i64 end = std::min(rows, begin + std::max<i64>(counts.as<const i64>()[e], 0));
    f(e, begin, end);
    begin = end;
  }
}

/// The expert of each row; -1 for padding.
std::vector<i64> experts_of(const TensorArg& counts, i64 rows) {
  std::vector<i64> experts(static_cast<std::size_t>(rows), -1);
  for_experts(counts, rows, [&](i64 expert, i64 begin, i64 end) {
    std::fill(experts.begin() + begin, experts.begin() + end, expert);
  });
  return experts;
}

struct Slope {
  double value, derivative;
};

Slope silu(double x) {
  const double s = 1 / (1 + std::exp(-x));
  return {x * s, s * (1 + x * (1 - s))};
}

Slope gelu(double x) {
  constexpr double kRoot = 0.79788456080286535588, kCubic = 0.044715;  // sqrt(2/π)
  const double t = std::tanh(kRoot * (x + kCubic * x * x * x));
  const double inner = kRoot * (1 + 3 * kCubic * x * x);
  return {0.5 * x * (1 + t), 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner};
}

Slope slope_of(Activation activation, double x) {
  return activation == Activation::swiglu ? silu(x) : gelu(x);
}

}  // namespace

template <>
void run(const UnpermuteRowsArgs& args) {
  with_floating(args.kName, args.y.dtype, [&]<class T>(T) {
    const Matrix<const T> y(args.y);
    const Matrix<T> out(args.out);
    const Matrix<const i32> inverse(args.inverse);
    parallel_for(args.out.shape[0], 16, [&](i64 begin, i64 end) {
      for (i64 i = begin; i < end; ++i) {
        for (i64 j = 0; j < args.out.shape[1]; ++j) {
          double sum = 0;
          for (i64 c = 0; c < args.inverse.shape[1]; ++c) {
            const i32 row = inverse(i, c);
            if (row >= 0 && row < args.y.shape[0]) sum += static_cast<double>(y(row, j));
          }
          out(i, j) = static_cast<T>(sum);
        }
      }
    });
  });
}

template <>
void run(const GroupedMatmulArgs& args) {
  with_floating(args.kName, args.a.dtype, [&]<class T>(T) {
    const Matrix<const T> a(args.a);
    const Matrix<T> out(args.out);
    const i64 m = args.a.shape[0], k = args.a.shape[1], n = args.out.shape[1];
    const std::vector<i64> experts = experts_of(args.counts, m);
    parallel_for(m, 1, [&](i64 begin, i64 end) {
      std::vector<double> sums(static_cast<std::size_t>(n));
      for (i64 i = begin; i < end; ++i) {
        std::ranges::fill(sums, 0.0);
        const i64 expert = experts[static_cast<std::size_t>(i)];
        const T* b = args.b.as<const T>() + std::max<i64>(expert, 0) * k * n;
        for (i64 p = 0; expert >= 0 && p < k; ++p) {
          const double factor = static_cast<double>(a(i, p));
          for (i64 j = 0; j < n; ++j) {
            sums[static_cast<std::size_t>(j)] +=
                factor * static_cast<double>(args.transpose_b ? b[j * k + p] : b[p * n + j]);
          }
        }
        for (i64 j = 0; j < n; ++j) out(i, j) = static_cast<T>(sums[static_cast<std::size_t>(j)]);
      }
    });
  });
}

template <>
void run(const GroupedWeightArgs& args) {
  with_floating(args.kName, args.a.dtype, [&]<class T>(T) {
    with_accumulator<T>(args.out.dtype, [&]<class S>(S) {
      const Matrix<const T> a(args.a), grad(args.grad);
      const i64 k = args.a.shape[1], n = args.grad.shape[1];
      parallel_for(k, 1, [&](i64 first, i64 last) {
        std::vector<double> sums(static_cast<std::size_t>(n));
        for_experts(args.counts, args.a.shape[0], [&](i64 expert, i64 begin, i64 end) {
          for (i64 p = first; p < last; ++p) {
            S* out = args.out.as<S>() + (expert * k + p) * n;
            for (i64 j = 0; j < n; ++j) {
              sums[static_cast<std::size_t>(j)] = static_cast<double>(out[j]);
            }
            for (i64 i = begin; i < end; ++i) {
              const double factor = static_cast<double>(a(i, p));
              for (i64 j = 0; j < n; ++j) {
                sums[static_cast<std::size_t>(j)] += factor * static_cast<double>(grad(i, j));
              }
            }
            for (i64 j = 0; j < n; ++j) out[j] = static_cast<S>(sums[static_cast<std::size_t>(j)]);
          }
        });
      });
    });
  });
}

template <>
void run(const WeightedActivationArgs& args) {
  with_floating(args.kName, args.x.dtype, [&]<class T>(T) {
    const Matrix<const T> x(args.x);
    const Matrix<T> out(args.out);
    const auto* weights = args.weights.as<const Statistic<T>>();
    const i64 f = args.out.shape[1];
    parallel_for(args.out.shape[0], 16, [&](i64 begin, i64 end) {
      for (i64 i = begin; i < end; ++i) {
        const double weight = weights != nullptr ? static_cast<double>(weights[i]) : 1.0;
        for (i64 j = 0; j < f; ++j) {
          double value = slope_of(args.activation, static_cast<double>(x(i, j))).value;
          if (is_gated(args.activation)) value *= static_cast<double>(x(i, f + j));
          out(i, j) = static_cast<T>(weight * value);
        }
      }
    });
  });
}

template <>
void run(const WeightedActivationBackwardArgs& args) {
  with_floating(args.kName, args.x.dtype, [&]<class T>(T) {
    const Matrix<const T> x(args.x), grad(args.grad);
    const Matrix<T> x_grad(args.x_grad);
    const auto* weights = args.weights.as<const Statistic<T>>();
    auto* weights_grad = args.weights_grad.as<Statistic<T>>();
    const i64 f = args.grad.shape[1];
    parallel_for(args.grad.shape[0], 16, [&](i64 begin, i64 end) {
      for (i64 i = begin; i < end; ++i) {
        const double weight = weights != nullptr ? static_cast<double>(weights[i]) : 1.0;
        double sum = 0;
        for (i64 j = 0; j < f; ++j) {
          const double g = static_cast<double>(grad(i, j)), first = static_cast<double>(x(i, j));
          const Slope slope = slope_of(args.activation, first);
          if (!is_gated(args.activation)) {
            sum += g * slope.value;
            x_grad(i, j) = static_cast<T>(weight * g * slope.derivative);
          } else {
            const double up = static_cast<double>(x(i, f + j));
            sum += g * slope.value * up;
            x_grad(i, j) = static_cast<T>(weight * g * slope.derivative * up);
            x_grad(i, f + j) = static_cast<T>(weight * g * slope.value);
          }
        }
        if (weights_grad != nullptr) weights_grad[i] = static_cast<Statistic<T>>(sum);
      }
    });
  });
}

}  // namespace tessera::reference

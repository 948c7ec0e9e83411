#include <cmath>

#include "elements.hpp"
#include "kernels.hpp"
#include "tessera/ops/norm.hpp"
#include "tessera/parallel_for.hpp"

namespace tessera::reference {

template <>
void run(const LayerNormArgs& args) {
  with_floating(args.kName, args.x.dtype, [&]<class T>(T) {
    const Matrix<const T> x(args.x);
    const Matrix<T> out(args.out);
    const T *weight = args.weight.as<const T>(), *bias = args.bias.as<const T>();
    auto* means = args.mean.as<Statistic<T>>();
    auto* rstds = args.rstd.as<Statistic<T>>();
    const i64 h = args.x.shape[1];
    parallel_for(args.x.shape[0], 8, [&](i64 begin, i64 end) {
      for (i64 i = begin; i < end; ++i) {
        double mean = 0;
        if (args.centred) {
          for (i64 j = 0; j < h; ++j) mean += static_cast<double>(x(i, j));
          mean /= static_cast<double>(h);
        }
        double squares = 0;
        for (i64 j = 0; j < h; ++j) {
          const double centred = static_cast<double>(x(i, j)) - mean;
          squares += centred * centred;
        }
        const double rstd = 1 / std::sqrt(squares / static_cast<double>(h) + args.eps);
        for (i64 j = 0; j < h; ++j) {
          const double normal = (static_cast<double>(x(i, j)) - mean) * rstd;
          double y = normal * static_cast<double>(weight[j]);
          if (args.centred) y += static_cast<double>(bias[j]);
          out(i, j) = static_cast<T>(y);
        }
        if (args.centred) means[i] = static_cast<Statistic<T>>(mean);
        rstds[i] = static_cast<Statistic<T>>(rstd);
      }
    });
  });
}

namespace {

/// With g = grad · weight and x̂ = (x - mean) · rstd:
/// dx = rstd · (g - mean of g - x̂ · mean of (g · x̂)); out(i, j) = result(i, j, dx). Rows that
/// are not centred have no mean and no mean of g.
template <class T, class Args, class Result>
void input_gradient(const Args& args, Result result) {
  const Matrix<const T> grad(args.grad), x(args.x);
  const Matrix<T> out(args.out);
  const T* weight = args.weight.template as<const T>();
  const auto* means = args.mean.template as<const Statistic<T>>();
  const auto* rstds = args.rstd.template as<const Statistic<T>>();
  const i64 h = args.x.shape[1];
  parallel_for(args.x.shape[0], 8, [&](i64 begin, i64 end) {
    for (i64 i = begin; i < end; ++i) {
      const double mean = args.centred ? means[i] : 0, rstd = rstds[i];
      const auto g = [&](i64 j) {
        return static_cast<double>(grad(i, j)) * static_cast<double>(weight[j]);
      };
      const auto normal = [&](i64 j) { return (static_cast<double>(x(i, j)) - mean) * rstd; };
      double sum = 0, projection = 0;
      for (i64 j = 0; j < h; ++j) {
        if (args.centred) sum += g(j);
        projection += g(j) * normal(j);
      }
      sum /= static_cast<double>(h);
      projection /= static_cast<double>(h);
      for (i64 j = 0; j < h; ++j) {
        const double dx = rstd * (g(j) - sum - normal(j) * projection);
        out(i, j) = static_cast<T>(result(i, j, dx));
      }
    }
  });
}

}  // namespace

template <>
void run(const LayerNormBackwardArgs& args) {
  with_floating(args.kName, args.x.dtype, [&]<class T>(T) {
    input_gradient<T>(args, [](i64, i64, double dx) { return dx; });
  });
}

template <>
void run(const LayerNormBackwardAddArgs& args) {
  with_floating(args.kName, args.x.dtype, [&]<class T>(T) {
    const Matrix<const T> sum(args.sum);
    // fp32 and fp64 round before adding, too, as an addition of its own would.
    input_gradient<T>(args, [&](i64 i, i64 j, double dx) {
      return static_cast<double>(sum(i, j)) + static_cast<double>(static_cast<Statistic<T>>(dx));
    });
  });
}

template <>
void run(const LayerNormWeightArgs& args) {
  with_floating(args.kName, args.x.dtype, [&]<class T>(T) {
    const Matrix<const T> grad(args.grad), x(args.x);
    const auto* means = args.mean.as<const Statistic<T>>();
    const auto* rstds = args.rstd.as<const Statistic<T>>();
    // Sums over the rows of each column; each gradient may be of a type of its own.
    const auto add_sums = [&](const TensorArg& sums, auto term) {
      with_accumulator<T>(sums.dtype, [&]<class S>(S) {
        S* out = sums.as<S>();
        parallel_for(args.x.shape[1], 16, [&](i64 begin, i64 end) {
          for (i64 j = begin; j < end; ++j) {
            double sum = static_cast<double>(out[j]);
            for (i64 i = 0; i < args.x.shape[0]; ++i) sum += term(i, j);
            out[j] = static_cast<S>(sum);
          }
        });
      });
    };
    add_sums(args.weight_grad, [&](i64 i, i64 j) {
      const double mean = args.centred ? means[i] : 0, rstd = rstds[i];
      return static_cast<double>(grad(i, j)) * (static_cast<double>(x(i, j)) - mean) * rstd;
    });
    if (!args.centred) return;
    add_sums(args.bias_grad, [&](i64 i, i64 j) { return static_cast<double>(grad(i, j)); });
  });
}

}  // namespace tessera::reference

// The normalisation as a module of transformer blocks, and its kernels for devices whose memory the
// CPU addresses.
#include "rms_norm.hpp"

#include <cmath>
#include <tessera/model_fields.hpp>
#include <tessera/parallel_for.hpp>
#include <tessera/plugin.hpp>
#include <tessera/with_type.hpp>
#include <type_traits>

namespace {

using namespace example;

class RmsNorm final : public Module {
 public:
  struct Config {
    i64 hidden = 0;
    double eps = 1e-5;
    static void describe(Schema<Config>& s) {
      model_fields::hidden(s);
      s.field("eps", &Config::eps, "added to the mean square").above(0).structural();
    }
  };

  // Under sequence parallelism a norm sees its rank's own rows only, so each rank has a part of the
  // weight's gradient: per_row() says so, and the parts are summed once a step.
  RmsNorm(const Config& config, BuildContext& build)
      : function_(build),
        eps_(config.eps),
        weight_(&build.parameter({.name = "weight",
                                  .shape = {config.hidden},
                                  .init = Init::ones(),
                                  .tags = {"norm"},
                                  .placement = build.tensor_region().per_row()})) {}

  Tensor do_forward(Context& cx, const Tensor& x) const override {
    return function_(cx, x, *weight_, eps_);
  }

 private:
  RmsNormFunction function_;
  double eps_;
  Parameter* weight_;
};

template <class T>
double value(const TensorArg& tensor, i64 at) {
  return static_cast<double>(tensor.as<const T>()[at]);
}
// The type of statistics and accumulators: the data's, but never narrower than float.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

// All kernels sum in double and in one order, so that a result does not depend on the number of
// threads.
template <class T>
void forward_of(const RmsNormArgs& a) {
  const i64 h = a.x.shape[1];
  parallel_for(a.x.shape[0], 8, [&](i64 begin, i64 end) {
    for (i64 row = begin; row < end; ++row) {
      const i64 first = row * h;
      double squares = 0;
      for (i64 j = 0; j < h; ++j) squares += value<T>(a.x, first + j) * value<T>(a.x, first + j);
      const double rstd = 1 / std::sqrt(squares / static_cast<double>(h) + a.eps);
      a.rstd.as<Wide<T>>()[row] = static_cast<Wide<T>>(rstd);
      for (i64 j = 0; j < h; ++j) {
        const double normed = value<T>(a.x, first + j) * rstd;
        a.out.as<T>()[first + j] = static_cast<T>(normed * value<T>(a.weight, j));
      }
    }
  });
}

// dx = rstd · (grad · weight - x · rstd² · mean of grad · weight · x).
template <class T>
void backward_of(const RmsNormBackwardArgs& a) {
  const i64 h = a.x.shape[1];
  parallel_for(a.x.shape[0], 8, [&](i64 begin, i64 end) {
    for (i64 row = begin; row < end; ++row) {
      const auto x = [&](i64 j) { return value<T>(a.x, row * h + j); };
      const auto scaled = [&](i64 j) {
        return value<T>(a.grad, row * h + j) * value<T>(a.weight, j);
      };
      double sum = 0;
      for (i64 j = 0; j < h; ++j) sum += scaled(j) * x(j);
      const double rstd = value<Wide<T>>(a.rstd, row);
      const double along = sum / static_cast<double>(h) * rstd * rstd;
      for (i64 j = 0; j < h; ++j) {
        a.out.as<T>()[row * h + j] = static_cast<T>(rstd * (scaled(j) - x(j) * along));
      }
    }
  });
}

// Each feature is one thread's: rows are added in one order.
template <class T>
void weight_gradient_of(const RmsNormWeightArgs& a) {
  const i64 n = a.x.shape[0], h = a.x.shape[1];
  parallel_for(h, 16, [&](i64 begin, i64 end) {
    for (i64 j = begin; j < end; ++j) {
      double sum = 0;
      for (i64 row = 0; row < n; ++row) {
        const i64 at = row * h + j;
        sum += value<T>(a.grad, at) * value<T>(a.x, at) * value<Wide<T>>(a.rstd, row);
      }
      a.weight_grad.as<Wide<T>>()[j] += static_cast<Wide<T>>(sum);
    }
  });
}

void forward(const RmsNormArgs& a) {
  with_floating(a.kName, a.x.dtype, [&]<class T>(T) { forward_of<T>(a); });
}
void backward(const RmsNormBackwardArgs& a) {
  with_floating(a.kName, a.x.dtype, [&]<class T>(T) { backward_of<T>(a); });
}
void weight_gradient(const RmsNormWeightArgs& a) {
  with_floating(a.kName, a.x.dtype, [&]<class T>(T) { weight_gradient_of<T>(a); });
}

}  // namespace

TESSERA_PLUGIN(rms_norm, "0.1.0", "Root mean square normalisation") {
  registrar.add<Module, RmsNorm>("rms_norm", "x / root mean square (Zhang, Sennrich 2019)");
  // A launch with another dtype is refused, with this list in the error.
  constexpr DTypes kDTypes = kFloatingDTypes;
  registrar.add_kernel("host", make_kernel<RmsNormArgs>(&forward, kDTypes));
  registrar.add_kernel("host", make_kernel<RmsNormBackwardArgs>(&backward, kDTypes));
  registrar.add_kernel("host", make_kernel<RmsNormWeightArgs>(&weight_gradient, kDTypes));
}

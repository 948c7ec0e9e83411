// The normalisation as a module of transformer blocks, and its kernels for devices whose memory the
// CPU addresses.
#include "scale_norm.hpp"

#include <cmath>
#include <tessera/model_fields.hpp>
#include <tessera/parallel_for.hpp>
#include <tessera/plugin.hpp>
#include <tessera/with_type.hpp>
#include <type_traits>

namespace {

using namespace example;

class ScaleNorm final : public Module {
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
  // scale's gradient: per_row() says so, and the parts are summed once a step.
  ScaleNorm(const Config& config, BuildContext& build)
      : function_(build),
        eps_(config.eps),
        scale_(&build.parameter({.name = "scale",
                                 .shape = {1},
                                 .init = Init::ones(),
                                 .tags = {"norm"},
                                 .placement = build.tensor_region().per_row()})) {}

  Tensor do_forward(Context& cx, const Tensor& x) const override {
    return function_(cx, x, *scale_, eps_);
  }

 private:
  ScaleNormFunction function_;
  double eps_;
  Parameter* scale_;
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
void forward_of(const ScaleNormArgs& a) {
  const i64 h = a.x.shape[1];
  parallel_for(a.x.shape[0], 8, [&](i64 begin, i64 end) {
    for (i64 row = begin; row < end; ++row) {
      const i64 first = row * h;
      double squares = 0;
      for (i64 j = 0; j < h; ++j) squares += value<T>(a.x, first + j) * value<T>(a.x, first + j);
      const double rstd = 1 / std::sqrt(squares / static_cast<double>(h) + a.eps);
      a.rstd.as<Wide<T>>()[row] = static_cast<Wide<T>>(rstd);
      const double factor = rstd * value<T>(a.scale, 0);
      for (i64 j = first; j < first + h; ++j) {
        a.out.as<T>()[j] = static_cast<T>(value<T>(a.x, j) * factor);
      }
    }
  });
}

// dx = rstd · scale · (grad - x · rstd² · mean of grad · x).
template <class T>
void backward_of(const ScaleNormBackwardArgs& a) {
  const i64 h = a.x.shape[1];
  parallel_for(a.x.shape[0], 8, [&](i64 begin, i64 end) {
    for (i64 row = begin; row < end; ++row) {
      const auto x = [&](i64 j) { return value<T>(a.x, row * h + j); };
      const auto grad = [&](i64 j) { return value<T>(a.grad, row * h + j); };
      double sum = 0;
      for (i64 j = 0; j < h; ++j) sum += grad(j) * x(j);
      const double rstd = value<Wide<T>>(a.rstd, row);
      const double along = sum / static_cast<double>(h) * rstd * rstd;
      const double factor = rstd * value<T>(a.scale, 0);
      for (i64 j = 0; j < h; ++j) {
        a.out.as<T>()[row * h + j] = static_cast<T>(factor * (grad(j) - x(j) * along));
      }
    }
  });
}

// One number, summed by one thread: a sum for each thread would depend on how many there are.
template <class T>
void weight_gradient_of(const ScaleNormWeightArgs& a) {
  const i64 n = a.x.shape[0], h = a.x.shape[1];
  double sum = 0;
  for (i64 row = 0; row < n; ++row) {
    double of_row = 0;
    for (i64 j = row * h; j < (row + 1) * h; ++j) of_row += value<T>(a.grad, j) * value<T>(a.x, j);
    sum += of_row * value<Wide<T>>(a.rstd, row);
  }
  *a.scale_grad.as<Wide<T>>() += static_cast<Wide<T>>(sum);
}

void forward(const ScaleNormArgs& a) {
  with_floating(a.kName, a.x.dtype, [&]<class T>(T) { forward_of<T>(a); });
}
void backward(const ScaleNormBackwardArgs& a) {
  with_floating(a.kName, a.x.dtype, [&]<class T>(T) { backward_of<T>(a); });
}
void weight_gradient(const ScaleNormWeightArgs& a) {
  with_floating(a.kName, a.x.dtype, [&]<class T>(T) { weight_gradient_of<T>(a); });
}

}  // namespace

TESSERA_PLUGIN(scale_norm, "0.1.0", "A normalisation with one scale") {
  registrar.add<Module, ScaleNorm>("scale_norm",
                                   "x / root mean square · one scale (Nguyen, Salazar 2019)");
  // A launch with another dtype is refused, with this list in the error.
  constexpr DTypes kDTypes = kFloatingDTypes;
  registrar.add_kernel("host", make_kernel<ScaleNormArgs>(&forward, kDTypes));
  registrar.add_kernel("host", make_kernel<ScaleNormBackwardArgs>(&backward, kDTypes));
  registrar.add_kernel("host", make_kernel<ScaleNormWeightArgs>(&weight_gradient, kDTypes));
}

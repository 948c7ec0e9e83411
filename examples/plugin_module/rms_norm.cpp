// The normalisation as a module of transformer blocks, and its kernels for devices whose memory the
// CPU addresses.
#include "rms_norm.hpp"

#include <cmath>
#include <tessera/bounds.hpp>
#include <tessera/parallel_for.hpp>
#include <tessera/plugin.hpp>
#include <type_traits>

namespace {

using namespace example;

class RmsNorm final : public Module {
 public:
  struct Config {
    i64 hidden = 0;
    double eps = 1e-5;
    static void describe(Schema<Config>& s) {
      s.field("hidden", &Config::hidden, "features")
          .from("model.hidden")
          .at_least(1)
          .at_most(kMostFeatures);
      s.field("eps", &Config::eps, "added to the mean square").above(0);
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

  Tensor operator()(Context& cx, const Tensor& x) const override {
    return function_(cx, x, *weight_, eps_);
  }

 private:
  RmsNormFunction function_;
  double eps_;
  Parameter* weight_;
};

// Of fp64 and fp32: sums in double, so that a result does not depend on the number of threads.
template <class T>
void forward(const RmsNormArgs& a) {
  const i64 h = a.x.shape[1];
  parallel_for(a.x.shape[0], 8, [&](i64 begin, i64 end) {
    for (i64 row = begin; row < end; ++row) {
      const T* x = a.x.as<const T>() + row * h;
      T* out = a.out.as<T>() + row * h;
      double squares = 0;
      for (i64 j = 0; j < h; ++j) squares += double{x[j]} * x[j];
      const double rstd = 1 / std::sqrt(squares / static_cast<double>(h) + a.eps);
      a.rstd.as<T>()[row] = static_cast<T>(rstd);
      for (i64 j = 0; j < h; ++j) {
        out[j] = static_cast<T>(x[j] * rstd * a.weight.as<const T>()[j]);
      }
    }
  });
}

// dx = rstd · (grad · weight - x · rstd² · mean of grad · weight · x).
template <class T>
void backward(const RmsNormBackwardArgs& a) {
  const i64 h = a.x.shape[1];
  const T* weight = a.weight.as<const T>();
  parallel_for(a.x.shape[0], 8, [&](i64 begin, i64 end) {
    for (i64 row = begin; row < end; ++row) {
      const T *x = a.x.as<const T>() + row * h, *grad = a.grad.as<const T>() + row * h;
      T* out = a.out.as<T>() + row * h;
      double sum = 0;
      for (i64 j = 0; j < h; ++j) sum += double{grad[j]} * weight[j] * x[j];
      const double rstd = a.rstd.as<const T>()[row];
      const double along = sum / static_cast<double>(h) * rstd * rstd;
      for (i64 j = 0; j < h; ++j) {
        out[j] = static_cast<T>(rstd * (double{grad[j]} * weight[j] - x[j] * along));
      }
    }
  });
}

// Each feature is one thread's: rows are added in one order.
template <class T>
void weight_gradient(const RmsNormWeightArgs& a) {
  const i64 n = a.x.shape[0], h = a.x.shape[1];
  parallel_for(h, 16, [&](i64 begin, i64 end) {
    for (i64 j = begin; j < end; ++j) {
      double sum = 0;
      for (i64 row = 0; row < n; ++row) {
        const i64 at = row * h + j;
        sum += double{a.grad.as<const T>()[at]} * a.x.as<const T>()[at] * a.rstd.as<const T>()[row];
      }
      a.weight_grad.as<T>()[j] += static_cast<T>(sum);
    }
  });
}

template <class Args, void (*kDouble)(const Args&), void (*kFloat)(const Args&)>
Kernel kernel() {
  const auto run = +[](const Args& a) { (a.x.dtype == DType::fp64 ? kDouble : kFloat)(a); };
  return make_kernel<Args>(run, DTypes{DType::fp64, DType::fp32});
}

}  // namespace

TESSERA_PLUGIN(rms_norm, "0.1.0", "Root mean square normalisation") {
  registrar.add<Module, RmsNorm>("rms_norm", "x / root mean square (Zhang, Sennrich 2019)");
  registrar.add_kernel("host", kernel<RmsNormArgs, forward<double>, forward<float>>());
  registrar.add_kernel("host", kernel<RmsNormBackwardArgs, backward<double>, backward<float>>());
  registrar.add_kernel(
      "host", kernel<RmsNormWeightArgs, weight_gradient<double>, weight_gradient<float>>());
}

// The operation's kernels, and a layer that calls it: linear, max(x, 0)², linear.
#include "squared_relu.hpp"

#include <cmath>
#include <tessera/bounds.hpp>
#include <tessera/parallel_for.hpp>
#include <tessera/plugin.hpp>

namespace {

using namespace example;

// For every device whose memory the CPU addresses ("host"), `reference` among them: as plain as it
// can be, so that it is right by inspection.
namespace plain {
template <class T>
void forward(const TensorArg& x, const TensorArg& out) {
  for (i64 i = 0; i < x.elements(); ++i) {
    const double positive = x.as<const T>()[i] > 0 ? double{x.as<const T>()[i]} : 0;
    out.as<T>()[i] = static_cast<T>(positive * positive);
  }
}
template <class T>
void backward(const TensorArg& grad, const TensorArg& x, const TensorArg& out) {
  for (i64 i = 0; i < x.elements(); ++i) {
    const double positive = x.as<const T>()[i] > 0 ? double{x.as<const T>()[i]} : 0;
    out.as<T>()[i] = static_cast<T>(2 * positive * double{grad.as<const T>()[i]});
  }
}
}  // namespace plain

// For the device `cpu`, where it takes the place of the plain one: on all of the rank's threads, in
// loops that the compiler turns into vector instructions.
namespace fast {
constexpr i64 kGrain = 1 << 14;  // elements that are worth a thread
template <class T>
void forward(const TensorArg& x, const TensorArg& out) {
  parallel_for(x.elements(), kGrain, [in = x.as<const T>(), to = out.as<T>()](i64 begin, i64 end) {
    for (i64 i = begin; i < end; ++i) {
      const T positive = in[i] > 0 ? in[i] : T{0};
      to[i] = positive * positive;
    }
  });
}
template <class T>
void backward(const TensorArg& grad, const TensorArg& x, const TensorArg& out) {
  const T *in = x.as<const T>(), *from = grad.as<const T>();
  parallel_for(x.elements(), kGrain, [=, to = out.as<T>()](i64 begin, i64 end) {
    for (i64 i = begin; i < end; ++i) to[i] = 2 * (in[i] > 0 ? in[i] : T{0}) * from[i];
  });
}
}  // namespace fast

// A launch with another dtype is refused, with this list in the error.
constexpr DTypes kImplemented{DType::fp64, DType::fp32};

// Reads and writes the slot "hidden", as every layer that fits [model.block.mlp] does.
class SquaredReluMlp final : public Layer {
 public:
  struct Config {
    i64 hidden = 0, layers = 1;
    Auto<i64> ffn;
    double init_std = 0.02;
    static void describe(Schema<Config>& s) {
      s.field("hidden", &Config::hidden, "features")
          .from("model.hidden")
          .at_least(1)
          .at_most(kMostFeatures);
      s.field("ffn", &Config::ffn, "inner features; \"auto\": 4 × hidden")
          .at_least(1)
          .at_most(kMostInnerFeatures);
      s.field("layers", &Config::layers, "scales the initial output weights")
          .from("model.layers")
          .at_least(1)
          .at_most(kMostLayers);
      s.field("init_std", &Config::init_std, "standard deviation of the initial weights")
          .from("model.init_std")
          .at_least(0);
    }
  };

  SquaredReluMlp(const Config& config, BuildContext& build)
      : hidden_(build.slot("hidden")), region_(build.tensor_region()), activation_(build) {
    const i64 ffn = config.ffn.value_or(4 * config.hidden);
    const double depth = std::sqrt(2.0 * static_cast<double>(config.layers));
    up_ = &build.parameter({.name = "up.weight",
                            .shape = {ffn, config.hidden},
                            .split = {{.dim = 0, .axis = Axis::tensor}},
                            .init = Init::gaussian(config.init_std)});
    down_ = &build.parameter({.name = "down.weight",
                              .shape = {config.hidden, ffn},
                              .split = {{.dim = 1, .axis = Axis::tensor}},
                              .init = Init::gaussian(config.init_std / depth)});
  }

  std::vector<Phase> phases() override {
    return {{.scope = "mlp", .incremental = true, .run = [this](Context& cx, Bundle& bundle) {
               const Tensor inner = region_.column(cx, bundle[hidden_], *up_, nullptr);
               bundle[hidden_] = {};
               bundle[hidden_] = region_.row(cx, activation_(cx, inner), *down_, nullptr);
             }}};
  }

 private:
  Slot hidden_;
  TensorRegion region_;
  SquaredRelu activation_;
  Parameter *up_ = nullptr, *down_ = nullptr;
};

}  // namespace

TESSERA_PLUGIN(squared_relu, "0.1.0", "MLP with squared ReLU") {
  registrar.add<Layer, SquaredReluMlp>("squared_relu",
                                       "linear, max(x, 0)², linear (So et al. 2021)");
  using Forward = SquaredReluArgs;
  using Backward = SquaredReluBackwardArgs;
  registrar.add_kernel("host",
                       make_kernel<Forward>(
                           +[](const Forward& a) {
                             a.x.dtype == DType::fp64 ? plain::forward<double>(a.x, a.out)
                                                      : plain::forward<float>(a.x, a.out);
                           },
                           kImplemented));
  registrar.add_kernel("host",
                       make_kernel<Backward>(
                           +[](const Backward& a) {
                             a.x.dtype == DType::fp64 ? plain::backward<double>(a.grad, a.x, a.out)
                                                      : plain::backward<float>(a.grad, a.x, a.out);
                           },
                           kImplemented));
  registrar.add_kernel("cpu",
                       make_kernel<Forward>(
                           +[](const Forward& a) {
                             a.x.dtype == DType::fp64 ? fast::forward<double>(a.x, a.out)
                                                      : fast::forward<float>(a.x, a.out);
                           },
                           kImplemented));
  registrar.add_kernel("cpu",
                       make_kernel<Backward>(
                           +[](const Backward& a) {
                             a.x.dtype == DType::fp64 ? fast::backward<double>(a.grad, a.x, a.out)
                                                      : fast::backward<float>(a.grad, a.x, a.out);
                           },
                           kImplemented));
}

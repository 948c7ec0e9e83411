// The operation's kernels, and a layer that calls it: linear, max(x, 0)², linear.
#include "squared_relu.hpp"

#include <algorithm>
#include <cmath>
#include <tessera/model_fields.hpp>
#include <tessera/parallel_for.hpp>
#include <tessera/plugin.hpp>
#include <tessera/with_type.hpp>
#include <type_traits>
#include <utility>

namespace {

using namespace example;

// Kernels for every device whose memory the CPU addresses ("host"), `reference` among them: plain
// enough to be right by inspection. They compute in double and round once.
namespace plain {
template <class T>
double at(const TensorArg& tensor, i64 i) {
  return static_cast<double>(tensor.as<const T>()[i]);
}

void forward(const SquaredReluArgs& a) {
  with_floating(a.kName, a.x.dtype, [&]<class T>(T) {
    for (i64 i = 0; i < a.x.elements(); ++i) {
      const double positive = std::max(at<T>(a.x, i), 0.0);
      a.out.as<T>()[i] = static_cast<T>(positive * positive);
    }
  });
}

void backward(const SquaredReluBackwardArgs& a) {
  with_floating(a.kName, a.x.dtype, [&]<class T>(T) {
    for (i64 i = 0; i < a.x.elements(); ++i) {
      const double slope = 2 * std::max(at<T>(a.x, i), 0.0);
      a.out.as<T>()[i] = static_cast<T>(slope * at<T>(a.grad, i));
    }
  });
}
}  // namespace plain

// Kernels for the device `cpu`, where they take the place of the plain ones: on all of the rank's
// threads, in float (fp64 in double).
namespace fast {
constexpr i64 kGrain = 1 << 14;  // elements that are worth a thread
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

void forward(const SquaredReluArgs& a) {
  with_floating(a.kName, a.x.dtype, [&]<class T>(T) {
    using W = Wide<T>;
    const auto* in = a.x.as<const T>();
    parallel_for(a.x.elements(), kGrain, [in, to = a.out.as<T>()](i64 begin, i64 end) {
      for (i64 i = begin; i < end; ++i) {
        const W positive = std::max(static_cast<W>(in[i]), W{0});
        to[i] = static_cast<T>(positive * positive);
      }
    });
  });
}

void backward(const SquaredReluBackwardArgs& a) {
  with_floating(a.kName, a.x.dtype, [&]<class T>(T) {
    using W = Wide<T>;
    const auto *in = a.x.as<const T>(), *from = a.grad.as<const T>();
    parallel_for(a.x.elements(), kGrain, [=, to = a.out.as<T>()](i64 begin, i64 end) {
      for (i64 i = begin; i < end; ++i) {
        const W slope = 2 * std::max(static_cast<W>(in[i]), W{0});
        to[i] = static_cast<T>(slope * static_cast<W>(from[i]));
      }
    });
  });
}
}  // namespace fast

// Reads and writes the slot "hidden", as every layer that fits [model.block.mlp] does.
class SquaredReluMlp final : public Layer {
 public:
  struct Config {
    i64 hidden = 0, layers = 1;
    Auto<i64> ffn;
    double init_std = 0.02;
    static void describe(Schema<Config>& s) {
      model_fields::hidden(s);
      s.field("ffn", &Config::ffn, "inner features; \"auto\": 4 × hidden")
          .at_least(1)
          .at_most(kMostInnerFeatures);
      model_fields::layers(s);
      model_fields::init_std(s);
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

  std::vector<Phase> do_phases() override {
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
  // A launch with another dtype is refused, with this list in the error.
  constexpr DTypes kDTypes = kFloatingDTypes;
  registrar.add_kernel("host", make_kernel<SquaredReluArgs>(&plain::forward, kDTypes));
  registrar.add_kernel("host", make_kernel<SquaredReluBackwardArgs>(&plain::backward, kDTypes));
  registrar.add_kernel("cpu", make_kernel<SquaredReluArgs>(&fast::forward, kDTypes));
  registrar.add_kernel("cpu", make_kernel<SquaredReluBackwardArgs>(&fast::backward, kDTypes));
#ifdef TESSERA_HAVE_CUDA  // squared_relu.cu was compiled
  for (Kernel& kernel : squared_relu_gpu_kernels()) registrar.add_kernel("cuda", std::move(kernel));
#endif
}

// An MLP with a gate: down(gelu(x · gateᵀ) ⊙ (x · upᵀ)), the GEGLU of Shazeer 2020.
#include <cmath>
#include <memory>
#include <tessera/build.hpp>
#include <tessera/ops.hpp>
#include <tessera/plugin.hpp>

namespace {

using namespace tessera;

// Reads and writes the slot "hidden", as every layer that fits [model.block.mlp] does.
class Geglu final : public Layer {
 public:
  struct Config {
    i64 hidden = 0, layers = 1;
    Auto<i64> ffn;
    double init_std = 0.02;
    Component<Module> down{"row_linear"};
    static void describe(Schema<Config>& s) {
      model_fields::hidden(s);
      s.field("ffn", &Config::ffn, "inner features; \"auto\": 8/3 × hidden, in eights")
          .at_least(1)
          .at_most(kMostInnerFeatures);
      model_fields::layers(s);
      model_fields::init_std(s);
      s.slot("down", &Config::down, "inner features to hidden");
    }
  };

  Geglu(const Config& config, BuildContext& build)
      : hidden_(build.slot("hidden")), region_(build.tensor_region()) {
    const i64 ffn = config.ffn.value_or((config.hidden * 8 / 3 + 7) / 8 * 8);
    const auto projection = [&](std::string_view name) {
      return &build.parameter({.name = name,
                               .shape = {ffn, config.hidden},
                               .split = {{.dim = 0, .axis = Axis::tensor}},
                               .init = Init::gaussian(config.init_std),
                               .linear = true});
    };
    gate_ = projection("gate.weight");
    up_ = projection("up.weight");
    const double depth = std::sqrt(2.0 * static_cast<double>(config.layers));
    down_ =
        build.child("down",
                    config.down,
                    {{"in", ffn}, {"out", config.hidden}, {"init_std", config.init_std / depth}});
  }

  std::vector<Phase> do_phases() override {
    return {{.scope = "mlp", .incremental = true, .run = [this](Context& cx, Bundle& bundle) {
               const Tensor x = region_.enter(cx, bundle[hidden_]);  // whole: ranks share features
               bundle[hidden_] = {};
               const Tensor gate = ops::gelu(cx, ops::linear(cx, x, *gate_, nullptr));
               const Tensor up = ops::linear(cx, x, *up_, nullptr);
               bundle[hidden_] = (*down_)(cx, ops::multiply(cx, gate, up));  // sums, and leaves
             }}};
  }

 private:
  Slot hidden_;
  TensorRegion region_;
  Parameter *gate_, *up_;
  std::shared_ptr<Module> down_;
};

}  // namespace

TESSERA_PLUGIN(geglu, "0.1.0", "Gated MLP") {
  registrar.add<Layer, Geglu>("geglu", "MLP with a GELU gate (Shazeer 2020)");
}

#include <cmath>
#include <string>

#include "tessera/build.hpp"
#include "tessera/ops.hpp"
#include "tessera/plugin.hpp"

namespace tessera {

/// Two linears with a GELU between: column- then row-parallel, so that one all-reduce forward and
/// one backward are all the communication (Shoeybi et al. 2019, §3). Reads and writes "hidden".
class Mlp final : public Layer {
 public:
  struct Config {
    i64 hidden = 0, layers = 1;
    Auto<i64> ffn;
    std::string activation = "gelu";
    double init_std = 0.02;
    Component<Module> up{"column_linear", {}};
    Component<Module> down{"row_linear", {}};
    static void describe(Schema<Config>& s) {
      model_fields::hidden(s);
      s.field("ffn", &Config::ffn, "inner features; \"auto\": 4 × hidden")
          .at_least(1)
          .at_most(kMostInnerFeatures)
          .megatron("--ffn-hidden-size")
          .also("ffn_dim intermediate_size");
      s.field("activation",
              &Config::activation,
              "between the linears; gelu: the tanh form, as GPT-2; gelu_erf: x · Φ(x)")
          .one_of({"gelu", "gelu_erf"})
          .structural();
      model_fields::layers(s);
      model_fields::init_std(s);
      s.slot("up", &Config::up, "hidden to inner features");
      s.slot("down", &Config::down, "inner features to hidden");
    }
  };

  Mlp(const Config& config, BuildContext& build)
      : hidden_(build.slot("hidden")),
        activation_(config.activation == "gelu_erf" ? &ops::gelu_erf : &ops::gelu) {
    const i64 ffn = config.ffn.value_or(4 * config.hidden);
    build.divide(ffn, "ffn", "inner features");
    up_ = build.child(
        "up", config.up, {{"in", config.hidden}, {"out", ffn}, {"init_std", config.init_std}});
    const double scale = std::sqrt(2.0 * static_cast<double>(config.layers));
    down_ =
        build.child("down",
                    config.down,
                    {{"in", ffn}, {"out", config.hidden}, {"init_std", config.init_std / scale}});
  }

  std::vector<Phase> do_phases() override {
    return {{.scope = "mlp", .incremental = true, .run = [this](Context& cx, Bundle& bundle) {
               const Tensor inner = (*up_)(cx, bundle[hidden_]);
               bundle[hidden_] = {};
               bundle[hidden_] = (*down_)(cx, activation_(cx, inner));
             }}};
  }

 private:
  Slot hidden_;
  Tensor (*activation_)(Context&, const Tensor&);
  std::shared_ptr<Module> up_, down_;
};

}  // namespace tessera

TESSERA_PLUGIN(mlp, "0.1.0", "Tensor-parallel MLP") {
  registrar.add<tessera::Layer, tessera::Mlp>("mlp", "linear, GELU, linear");
}

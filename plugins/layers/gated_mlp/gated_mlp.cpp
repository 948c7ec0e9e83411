#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "tessera/build.hpp"
#include "tessera/moe_ops.hpp"
#include "tessera/plugin.hpp"

namespace tessera {

/// down(activation(gate(x)) · up(x)) (Shazeer 2020, "GLU Variants Improve Transformer"): gate and
/// up are the two sections of one column-parallel product, down is row-parallel, so communication
/// is that of `mlp`. Reads and writes "hidden".
class GatedMlp final : public Layer {
 public:
  struct Config {
    i64 hidden = 0, layers = 1;
    Auto<i64> ffn;
    std::string activation = "swiglu";
    double init_std = 0.02;
    Component<Module> up{"column_linear", {}};
    Component<Module> down{"row_linear", {}};
    static void describe(Schema<Config>& s) {
      model_fields::hidden(s);
      s.field("ffn",
              &Config::ffn,
              "inner features; \"auto\": 8/3 × hidden, in 64s as Megatron-LM rounds them")
          .at_least(1)
          .at_most(kMostInnerFeatures)
          .megatron("--ffn-hidden-size")
          .also("ffn_dim intermediate_size");
      s.field("activation",
              &Config::activation,
              "of the gate; swiglu: x · sigmoid(x); geglu: gelu(x), the tanh form, as "
              "\"gelu_pytorch_tanh\" of transformers")
          .one_of({"swiglu", "geglu"})
          .structural()
          .also("--swiglu",
                "is activation of [model.block.mlp] type = \"gated_mlp\" here, or of \"moe\"")
          .also("hidden_act");
      model_fields::layers(s);
      model_fields::init_std(s);
      s.slot("up", &Config::up, "hidden to gate, then up, of inner features each");
      s.slot("down", &Config::down, "inner features to hidden");
    }
  };

  GatedMlp(const Config& config, BuildContext& build)
      : hidden_(build.slot("hidden")), activation_(ops::activation_named(config.activation)) {
    constexpr i64 kMultiple = 64;
    const i64 ffn =
        config.ffn.value_or(std::max<i64>(config.hidden * 8 / 3 / kMultiple, 1) * kMultiple);
    build.divide(ffn, "ffn", "inner features");
    up_ = build.child("up",
                      config.up,
                      {{"in", config.hidden},
                       {"out", 2 * ffn},
                       {"sections", Value::Array{ffn, ffn}},
                       {"init_std", config.init_std}});
    const double scale = std::sqrt(2.0 * static_cast<double>(config.layers));
    down_ =
        build.child("down",
                    config.down,
                    {{"in", ffn}, {"out", config.hidden}, {"init_std", config.init_std / scale}});
  }

  std::vector<Phase> do_phases() override {
    return {{.scope = "mlp", .incremental = true, .run = [this](Context& cx, Bundle& bundle) {
               const Tensor x = std::exchange(bundle[hidden_], {});
               const Tensor inner = ops::weighted_activation(cx, (*up_)(cx, x), {}, activation_);
               bundle[hidden_] = (*down_)(cx, inner);
             }}};
  }

 private:
  Slot hidden_;
  Activation activation_;
  std::shared_ptr<Module> up_, down_;
};

}  // namespace tessera

TESSERA_PLUGIN(gated_mlp, "0.1.0", "Tensor-parallel MLP with a gate") {
  registrar.add<tessera::Layer, tessera::GatedMlp>("gated_mlp",
                                                   "two linears, one gates the other, and a third");
}

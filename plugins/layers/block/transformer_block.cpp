#include <algorithm>
#include <iterator>
#include <utility>

#include "tessera/build.hpp"
#include "tessera/ops.hpp"
#include "tessera/plugin.hpp"

namespace tessera {

/// Transformer block: x + dropout(attention(norm(x))), then the same with the MLP; with order
/// "post" norm(x + dropout(attention(x))) (Shoeybi et al. 2019, figure 7). Any layers that read and
/// write "hidden" fit the two slots, whatever their number of phases: what comes before a sub-layer
/// joins its first phase, what comes after it the last. "hidden" and "residual" are between tensor
/// regions.
class TransformerBlock final : public Layer {
 public:
  struct Config {
    double dropout = 0;
    std::string order = "pre";
    Component<Module> norm{"layernorm", {}};
    Component<Layer> attention{"self_attention", {}};
    Component<Layer> mlp{"mlp", {}};
    static void describe(Schema<Config>& s) {
      model_fields::dropout(s, "of each sub-layer's result, before the residual sum")
          .megatron("--hidden-dropout");
      model_fields::norm_order(s);
      s.slot("norm", &Config::norm, "normalisation of each sub-layer, before it or after its sum")
          .megatron("--normalization");
      s.slot("attention", &Config::attention, "the first sub-layer");
      s.slot("mlp", &Config::mlp, "the second sub-layer");
    }
  };

  TransformerBlock(const Config& config, BuildContext& build)
      : region_(build.tensor_region()),
        dropout_(config.dropout),
        post_(config.order == "post"),
        hidden_(build.slot("hidden")),
        residual_(build.slot("residual")),
        row_ids_(build.slot("row_ids")) {
    const auto sublayer = [&](std::string_view name, const Component<Layer>& component) {
      return SubLayer{build.child(fmt::format("{}_norm", name), config.norm),
                      build.child(name, component),
                      build.random_site(name)};
    };
    sublayers_ = {sublayer("attention", config.attention), sublayer("mlp", config.mlp)};
  }

  std::vector<Phase> do_phases() override {
    std::vector<Phase> all;
    for (const SubLayer& sublayer : sublayers_) {
      std::vector<Phase> phases = sublayer.layer->phases();
      require(!phases.empty(), "a sub-layer of a transformer block has no phases");
      auto& first = phases.front().run;
      first = [this, inner = std::move(first), norm = sublayer.norm](Context& cx, Bundle& bundle) {
        bundle[residual_] = bundle[hidden_];
        if (!post_) bundle[hidden_] = (*norm)(cx, bundle[residual_]);
        inner(cx, bundle);
      };
      auto& last = phases.back().run;
      last = [this, inner = std::move(last), norm = sublayer.norm, key = sublayer.key](
                 Context& cx, Bundle& bundle) {
        inner(cx, bundle);
        const Tensor rows = region_.own_rows(bundle[row_ids_]);
        bundle[hidden_] = ops::dropout(cx, bundle[hidden_], bundle[residual_], rows, dropout_, key);
        bundle[residual_] = {};
        if (post_) bundle[hidden_] = (*norm)(cx, bundle[hidden_]);
      };
      std::ranges::move(phases, std::back_inserter(all));
    }
    return all;
  }

  void do_end_step(Context& cx) override {
    for (const SubLayer& sublayer : sublayers_) sublayer.layer->end_step(cx);
  }

 private:
  struct SubLayer {
    std::shared_ptr<Module> norm;
    std::shared_ptr<Layer> layer;
    u64 key;
  };
  TensorRegion region_;
  double dropout_;
  bool post_;
  Slot hidden_, residual_, row_ids_;
  std::vector<SubLayer> sublayers_;
};

}  // namespace tessera

TESSERA_PLUGIN(transformer_block, "0.1.0", "Transformer block") {
  registrar.add<tessera::Layer, tessera::TransformerBlock>(
      "transformer_block",
      "norm, attention, residual; norm, MLP, residual; or norms after the sums");
}

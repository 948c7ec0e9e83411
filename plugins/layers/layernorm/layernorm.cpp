#include "tessera/build.hpp"
#include "tessera/ops.hpp"
#include "tessera/plugin.hpp"

namespace tessera {

/// Layer normalisation over the hidden features of each row.
class LayerNorm final : public Module {
 public:
  struct Config {
    i64 hidden = 0;
    double eps = 1e-5;
    static void describe(Schema<Config>& s) {
      model_fields::hidden(s);
      s.field("eps", &Config::eps, "added to the variance")
          .above(0)
          .structural()
          .megatron("--norm-epsilon");
    }
  };
  LayerNorm(const Config& config, BuildContext& build) : eps_(config.eps) {
    const Placement placement = build.tensor_region().per_row();
    weight_ = &build.parameter({.name = "weight",
                                .shape = {config.hidden},
                                .init = Init::ones(),
                                .tags = {"norm"},
                                .placement = placement});
    bias_ = &build.parameter({.name = "bias",
                              .shape = {config.hidden},
                              .tags = {"norm", "bias"},
                              .placement = placement});
  }
  Tensor do_forward(Context& cx, const Tensor& x) const override {
    return ops::layernorm(cx, x, *weight_, *bias_, eps_);
  }

 private:
  double eps_;
  Parameter* weight_;
  Parameter* bias_;
};

}  // namespace tessera

TESSERA_PLUGIN(layernorm, "0.1.0", "Layer normalisation") {
  registrar.add<tessera::Module, tessera::LayerNorm>("layernorm",
                                                     "layer normalisation (Ba et al. 2016)");
}

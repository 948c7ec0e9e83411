#include "tessera/build.hpp"
#include "tessera/ops.hpp"
#include "tessera/plugin.hpp"

namespace tessera {

/// Divides each row by its root mean square over the hidden features.
class RmsNorm final : public Module {
 public:
  struct Config {
    i64 hidden = 0;
    double eps = 1e-5;
    static void describe(Schema<Config>& s) {
      model_fields::hidden(s);
      s.field("eps", &Config::eps, "added to the mean square")
          .above(0)
          .structural()
          .megatron("--norm-epsilon");
    }
  };
  RmsNorm(const Config& config, BuildContext& build)
      : eps_(config.eps),
        weight_(&build.parameter({.name = "weight",
                                  .shape = {config.hidden},
                                  .init = Init::ones(),
                                  .tags = {"norm"},
                                  .placement = build.tensor_region().per_row()})) {}
  Tensor do_forward(Context& cx, const Tensor& x) const override {
    return ops::rmsnorm(cx, x, *weight_, eps_);
  }

 private:
  double eps_;
  Parameter* weight_;
};

}  // namespace tessera

TESSERA_PLUGIN(rmsnorm, "0.1.0", "Root mean square normalisation") {
  registrar.add<tessera::Module, tessera::RmsNorm>(
      "rmsnorm", "root mean square normalisation (Zhang, Sennrich 2019)");
}

// Parameters that are replicated with partial gradients (Placement): summed over the
// axis before the update, and an error where the declaration is missing.
#include <gmock/gmock.h>

#include "invariant_support.hpp"
#include "tessera/collectives.hpp"
#include "tessera/ops.hpp"

namespace tessera::testing {
namespace partial_gradient_test {

using ::testing::HasSubstr;

// x + bias, computed as the sum over the tensor group of (x + bias) / t: every rank contributes a
// t-th of the bias' gradient.
class SharedOutBias final : public Module {
 public:
  struct Config {
    i64 hidden = 0;
    bool declared = true;
    static void describe(Schema<Config>& s) {
      s.field("hidden", &Config::hidden, "features").from("model.hidden");
      s.field("declared", &Config::declared, "say that the gradient is partial");
    }
  };
  SharedOutBias(const Config& config, BuildContext& build)
      : bias_(
            &build.parameter({.name = "bias",
                              .shape = {config.hidden},
                              .tags = {"bias"},
                              .placement = config.declared ? Placement::summed_over({Axis::tensor})
                                                           : Placement::replicated()})) {}

  Tensor do_forward(Context& cx, const Tensor& x) const override {
    ProcessGroup& group = cx.mesh->group(Axis::tensor);
    const Tensor whole = collectives::copy(cx, x, group, "bias");
    Tensor part = ops::scale(cx, ops::add_bias(cx, whole, *bias_), 1.0 / group.size());
    return collectives::reduce(cx, std::move(part), group, "bias");
  }

 private:
  Parameter* bias_;
};

const PluginHost& host() {
  static const std::unique_ptr<PluginHost> kHost = [] {
    auto loaded = load_plugins();
    loaded->add_builtin(+[](Registrar& r) {
      r.add<Module, SharedOutBias>("shared_out_bias", "a bias whose gradient is partial");
    });
    return loaded;
  }();
  return *kHost;
}

const Sets kBias = {"model.head.norm.type=\"shared_out_bias\""};

class PartialGradient : public ::testing::TestWithParam<int> {};

TEST_P(PartialGradient, IsSummedOverItsAxis) {
  const Sets sets = with(kBias, {"parallel.tensor=" + std::to_string(GetParam())});
  const Training one = train(tiny_config(), kBias, {.steps = 10, .host = &host()});
  const Training many = train(tiny_config(), sets, {.steps = 10, .host = &host()});
  EXPECT_EQ(difference(many.gradients, one.gradients), "");
  EXPECT_EQ(difference(many.losses, one.losses, kLossTolerance, "loss"), "");
  EXPECT_EQ(difference(many.norms, one.norms, kNormTolerance, "norm"), "");
}

INSTANTIATE_TEST_SUITE_P(Ranks, PartialGradient, ::testing::Values(2, 4));

TEST(PartialGradientMissing, ShowsInTheGradients) {
  const Sets wrong = with(kBias, {"model.head.norm.declared=false", "parallel.tensor=2"});
  const Training one = train(tiny_config(), kBias, {.host = &host()});
  const Training many = train(tiny_config(), wrong, {.host = &host()});
  EXPECT_THAT(difference(many.gradients, one.gradients), HasSubstr("head.norm.bias"));
}

}  // namespace partial_gradient_test
}  // namespace tessera::testing

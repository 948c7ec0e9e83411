// A transformer block as LLaMA-like models have it: grouped-query attention and SwiGLU, pre-norm.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tessera/device/host_device.hpp>
#include <tessera/ops.hpp>
#include <tessera/testing/workbench.hpp>

#include <cmath>

#include "common/error_of.hpp"
#include "sdk_support.hpp"
#include "swiglu.hpp"

namespace tessera {
namespace gqa_block_test {

/// y = x Wᵀ, cut over the tensor group along its outputs, each section on its own.
class Linear final : public Module {
 public:
  struct Config {
    i64 in = 0, out = 0;
    std::vector<i64> sections;
    static void describe(Schema<Config>& s) {
      s.field("in", &Config::in, "input features").given();
      s.field("out", &Config::out, "output features").given();
      s.field("sections", &Config::sections, "parts of the output that are cut on their own")
          .given();
    }
  };
  Linear(const Config& config, BuildContext& build)
      : weight_(build.parameter({.name = "weight",
                                 .shape = {config.out, config.in},
                                 .split = {{.axis = Axis::tensor, .sections = config.sections}},
                                 .init = Init::gaussian(0.02)})) {}
  Tensor do_forward(Context& cx, const Tensor& x) const override {
    return ops::linear(cx, x, weight_, nullptr);
  }

 private:
  Parameter& weight_;
};

class GqaBlock final : public Layer {
 public:
  struct Config {
    i64 hidden = 0, heads = 0, kv_heads = 1;
    Auto<i64> ffn;
    Component<Module> qkv{"linear"}, gate_up{"linear"};
    static void describe(Schema<Config>& s) {
      s.field("hidden", &Config::hidden, "features").from("model.hidden").at_least(1);
      s.field("heads", &Config::heads, "query heads").from("model.heads").at_least(1);
      s.field("kv_heads", &Config::kv_heads, "key and value heads")
          .at_least(1)
          .megatron("--num-query-groups");
      s.field("ffn", &Config::ffn, "inner features; auto: 8/3 hidden").at_least(1);
      s.slot("qkv", &Config::qkv, "projection to queries, keys and values");
      s.slot("gate_up", &Config::gate_up, "projection to gate and up");
    }
  };

  GqaBlock(const Config& config, BuildContext& build)
      : hidden_(build.slot("hidden")),
        residual_(build.slot("residual")),
        row_ids_(build.slot("row_ids")),
        swiglu_(build) {
    if (config.heads % config.kv_heads != 0) {
      build.reject(
          "kv_heads",
          fmt::format("{} query heads are no multiple of {}", config.heads, config.kv_heads));
    }
    const i64 ranks = build.mesh().size(Axis::tensor), d = config.hidden / config.heads;
    const i64 q = config.heads * d, kv = config.kv_heads * d;
    const i64 ffn = config.ffn.value_or(config.hidden * 8 / 3);
    const Placement per_row = build.tensor_region().per_row();
    norm_ = &build.parameter({.name = "norm.weight",
                              .shape = {config.hidden},
                              .init = Init::ones(),
                              .tags = {"norm"},
                              .placement = per_row});
    shift_ = &build.parameter({.name = "norm.bias",
                               .shape = {config.hidden},
                               .tags = {"norm", "bias"},
                               .placement = per_row});
    qkv_ = build.child(
        "qkv",
        config.qkv,
        {{"in", config.hidden}, {"out", q + 2 * kv}, {"sections", Value::Array{q, kv, kv}}});
    gate_up_ = build.child(
        "gate_up",
        config.gate_up,
        {{"in", config.hidden}, {"out", 2 * ffn}, {"sections", Value::Array{ffn, ffn}}});
    const BatchShape& batch = build.batch();
    shape_ = {batch.micro, batch.sequence, config.heads / ranks, config.kv_heads / ranks, d};
    spec_.scale = 1 / std::sqrt(static_cast<double>(d));
    spec_.key = build.random_site("attention");
    spec_.head_offset = build.mesh().coordinate(Axis::tensor) * shape_.heads;
  }

  std::vector<Phase> do_phases() override {
    return {{.scope = "attn", .run = [this](Context& cx, Bundle& bundle) { attend(cx, bundle); }},
            {.scope = "mlp", .run = [this](Context& cx, Bundle& bundle) { feed(cx, bundle); }}};
  }

 private:
  void attend(Context& cx, Bundle& bundle) const {
    bundle[residual_] = bundle[hidden_];
    const Tensor x = ops::layernorm(cx, bundle[hidden_], *norm_, *shift_, 1e-5);
    bundle[hidden_] = ops::attention(cx, (*qkv_)(cx, x), bundle[row_ids_], shape_, spec_);
  }
  void feed(Context& cx, Bundle& bundle) const {
    const Tensor x = ops::add(cx, bundle[hidden_], bundle[residual_]);
    bundle[residual_] = {};
    bundle[hidden_] = swiglu_(cx, (*gate_up_)(cx, x));
  }

  Slot hidden_, residual_, row_ids_;
  Swiglu swiglu_;
  Parameter *norm_, *shift_;
  std::shared_ptr<Module> qkv_, gate_up_;
  ops::AttentionShape shape_;
  AttentionSpec spec_;
};

void register_all(Registrar& registrar) {
  registrar.add<Module, Linear>("linear", "column-parallel, no bias");
  registrar.add<Layer, GqaBlock>("gqa_block", "grouped-query attention and SwiGLU");
  register_swiglu(registrar);
}

const TestTable& table() {
  static const TestTable kMade({{"kv_heads", 2}}, {{"model.hidden", 48}, {"model.heads", 8}});
  return kMade;
}

TEST(GqaBlock, DeclaresParametersUnderTheirScopes) {
  TestRegistrar registrar;
  register_all(registrar);
  const Mesh mesh(RankGenerator({.world = 2, .tensor = 2}), 1);
  TestBuild::Declared declared;
  TestBuild build(registrar, mesh, table(), declared, "layers.3");
  const auto layer = build.make<Layer>("gqa_block");
  EXPECT_EQ(declared.parameter("layers.3.qkv.weight").logical, (Shape{72, 48}));
  EXPECT_EQ(declared.parameter("layers.3.qkv.weight").local, (Shape{36, 48}));
  EXPECT_EQ(declared.parameter("layers.3.gate_up.weight").local, (Shape{128, 48}));
  EXPECT_TRUE(declared.parameter("layers.3.norm.bias").has_tag("bias"));
  EXPECT_THAT(declared.slots, ::testing::ElementsAre("hidden", "residual", "row_ids"));

  const auto phases = layer->phases();
  ASSERT_EQ(phases.size(), 2U);
  EXPECT_EQ(phases[0].scope, "attn");
  EXPECT_EQ(phases[1].scope, "mlp");
  EXPECT_EQ(phases[1].shapes, Shapes::fixed);
}

TEST(GqaBlock, RejectsHeadsThatDoNotDivide) {
  TestRegistrar registrar;
  register_all(registrar);
  const Mesh mesh(RankGenerator({}), 0);
  TestBuild::Declared declared;
  const TestTable wrong({{"kv_heads", 3}}, {{"model.hidden", 48}, {"model.heads", 8}});
  TestBuild build(registrar, mesh, wrong, declared);
  EXPECT_THAT(testing::error_of<ConfigError>([&] { build.make<Layer>("gqa_block"); }),
              ::testing::HasSubstr("kv_heads: 8 query heads are no multiple of 3"));
}

TEST(GqaBlock, SecondPhaseCallsTheChildAndThePluginsOperation) {
  TestRegistrar registrar;
  register_all(registrar);
  // Enough of a device: every product is a matrix of ones.
  std::vector<Kernel> kernels = registrar.kernels;
  kernels.push_back(make_kernel<AddArgs>(+[](const AddArgs& a) {
    for (i64 i = 0; i < a.out.elements(); ++i) {
      a.out.as<float>()[i] = a.a.as<float>()[i] + a.b.as<float>()[i];
    }
  }));
  kernels.push_back(make_kernel<MatmulArgs>(+[](const MatmulArgs& a) {
    for (i64 i = 0; i < a.out.elements(); ++i) a.out.as<float>()[i] = 1;
  }));
  HostDevice device("host_test", {}, kernels);
  testing::Workbench bench(device);
  const Mesh mesh(RankGenerator({}), 0);
  TestBuild::Declared declared;
  TestBuild build(registrar, mesh, table(), declared, "layers.0", &device);
  const auto layer = build.make<Layer>("gqa_block");
  for (const auto& parameter : declared.parameters) {
    parameter->main = bench.random(parameter->local, DType::fp32, 1);
    parameter->compute = parameter->main;
  }
  Bundle bundle(3, 0);
  bundle[Slot{0}] = bench.random({16, 48}, DType::fp32, 2);
  bundle[Slot{1}] = bench.random({16, 48}, DType::fp32, 3);
  layer->phases()[1].run(bench.context(), bundle);
  EXPECT_EQ(bundle[Slot{0}].shape(), (Shape{16, 128}));
  EXPECT_FALSE(bundle[Slot{1}].defined());
  for (const double y : testing::read(bundle[Slot{0}])) EXPECT_NEAR(y, 0.7310585786, 1e-6);
}

}  // namespace gqa_block_test
}  // namespace tessera

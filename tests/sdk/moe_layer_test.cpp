// A mixture of experts as phases, with the dispatcher in a slot.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tessera/device/host_device.hpp>
#include <tessera/dispatcher.hpp>
#include <tessera/ops.hpp>
#include <tessera/testing/workbench.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sdk_support.hpp"
#include "swiglu.hpp"

namespace tessera {
namespace moe_layer_test {

void describe(TensorArg& out, DType dtype, std::initializer_list<i64> shape) {
  out.dtype = dtype;
  out.rank = 0;
  for (const i64 size : shape) out.shape[out.rank++] = size;
}

/// The k largest of each row's softmax; ties go to the lower expert.
struct TopKArgs {
  static constexpr std::string_view kName = "test.top_k";
  static constexpr int kTensors = 3, kOutputs = 2;
  TensorArg logits, experts, weights;
  i64 k = 1;
  static void infer(TopKArgs& args) {
    require(args.logits.rank == 2 && args.k <= args.logits.shape[1],
            "top_k: {} of {} experts",
            args.k,
            args.logits.shape[1]);
    describe(args.experts, DType::i64, {args.logits.shape[0], args.k});
    describe(args.weights, args.logits.dtype, {args.logits.shape[0], args.k});
  }
};

void top_k(const TopKArgs& a) {
  const i64 all = a.logits.shape[1];
  std::vector<i64> order(static_cast<std::size_t>(all));
  for (i64 row = 0; row < a.logits.shape[0]; ++row) {
    const float* logits = a.logits.as<float>() + row * all;
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](i64 x, i64 y) { return logits[x] > logits[y]; });
    double sum = 0;
    for (i64 e = 0; e < all; ++e) sum += std::exp(logits[e]);
    for (i64 i = 0; i < a.k; ++i) {
      const i64 expert = order[static_cast<std::size_t>(i)];
      a.experts.as<i64>()[row * a.k + i] = expert;
      a.weights.as<float>()[row * a.k + i] = static_cast<float>(std::exp(logits[expert]) / sum);
    }
  }
}

/// out rows of expert e = x · weight[e]ᵀ; x grouped by expert, counts i64 [experts].
struct GroupedLinearArgs {
  static constexpr std::string_view kName = "test.grouped_linear";
  static constexpr int kTensors = 4, kOutputs = 1;
  TensorArg x, counts, weight, out;
  static void infer(GroupedLinearArgs& args) {
    require(args.weight.rank == 3 && args.x.shape[1] == args.weight.shape[2] &&
                args.counts.shape[0] == args.weight.shape[0],
            "grouped_linear: x [n, {}], weight [{}, {}, {}], {} counts",
            args.x.shape[1],
            args.weight.shape[0],
            args.weight.shape[1],
            args.weight.shape[2],
            args.counts.shape[0]);
    describe(args.out, args.x.dtype, {args.x.shape[0], args.weight.shape[1]});
  }
};

class Moe final : public Layer {
 public:
  struct Config {
    i64 hidden = 0, ffn = 0, experts = 8, top_k = 2;
    Component<TokenDispatcher> dispatcher{"local"};
    static void describe(Schema<Config>& s) {
      s.field("hidden", &Config::hidden, "features").from("model.hidden").at_least(1);
      s.field("ffn", &Config::ffn, "inner features of an expert").required().at_least(1);
      s.field("experts", &Config::experts, "experts of this layer")
          .at_least(1)
          .megatron("--num-experts");
      s.field("top_k", &Config::top_k, "experts a token").at_least(1).megatron("--moe-router-topk");
      s.slot("dispatcher", &Config::dispatcher, "carries tokens to their experts and back");
    }
  };

  Moe(const Config& config, BuildContext& build)
      : top_k_(config.top_k),
        hidden_(build.slot("hidden")),
        experts_(build.slot(build.scope() + ".experts")),
        weights_(build.slot(build.scope() + ".weights")),
        balance_(build.metric({.name = "moe_balance", .reduce = MetricReduce::mean})),
        choose_(build.operation<TopKArgs>()),
        grouped_(build.operation<GroupedLinearArgs>()),
        swiglu_(build) {
    if (config.top_k > config.experts) {
      build.reject("top_k", fmt::format("{} of {} experts", config.top_k, config.experts));
    }
    const Split cut{.dim = 0, .axis = Axis::expert};
    router_ = &build.parameter({.name = "router.weight",
                                .shape = {config.experts, config.hidden},
                                .init = Init::gaussian(0.02),
                                .placement = build.tensor_region().per_row()});
    gate_up_ = &build.parameter({.name = "experts.gate_up",
                                 .shape = {config.experts, 2 * config.ffn, config.hidden},
                                 .split = {cut},
                                 .init = Init::gaussian(0.02)});
    down_ = &build.parameter({.name = "experts.down",
                              .shape = {config.experts, config.hidden, config.ffn},
                              .split = {cut},
                              .init = Init::gaussian(0.02)});
    dispatcher_ = build.child("dispatcher", config.dispatcher, {{"experts", config.experts}});
  }

  std::vector<Phase> do_phases() override {
    return {
        {.scope = "moe_router", .run = [this](Context& cx, Bundle& bundle) { route(cx, bundle); }},
        {.scope = "moe_preprocess",
         .run =
             [this](Context& cx, Bundle& bundle) {
               put(bundle,
                   dispatcher_->preprocess(
                       cx, bundle, bundle[hidden_], {bundle[experts_], bundle[weights_]}));
             }},
        {.scope = "moe_dispatch",
         .shapes = dispatcher_->shapes(),
         .run =
             [this](Context& cx, Bundle& bundle) {
               put(bundle,
                   dispatcher_->dispatch(cx, bundle, {bundle[hidden_], bundle[weights_]}, [] {}));
             },
         .reads = dispatcher_->reads()},
        {.scope = "moe_experts",
         .shapes = dispatcher_->shapes(),
         .run =
             [this](Context& cx, Bundle& bundle) {
               const Tensor counts = dispatcher_->counts(bundle);
               const Tensor inner = grouped(cx, bundle[hidden_], counts, *gate_up_);
               bundle[hidden_] = grouped(cx, swiglu_(cx, inner), counts, *down_);
             }},
        {.scope = "moe_combine",
         .shapes = dispatcher_->shapes(),
         .run =
             [this](Context& cx, Bundle& bundle) {
               bundle[hidden_] = dispatcher_->combine(cx, bundle, bundle[hidden_], [] {});
             },
         .reads = dispatcher_->reads()},
        {.scope = "moe_unpermute", .run = [this](Context& cx, Bundle& bundle) {
           bundle[hidden_] = dispatcher_->unpermute(cx, bundle, bundle[hidden_]);
         }}};
  }

 private:
  void put(Bundle& bundle, const ExpertRows& rows) const {
    bundle[hidden_] = rows.x;
    bundle[weights_] = rows.weights;
  }
  void route(Context& cx, Bundle& bundle) const {
    TopKArgs args;
    const Tensor logits = ops::linear(cx, bundle[hidden_], *router_, nullptr);
    args.logits = logits.arg();
    args.k = top_k_;
    const auto chosen = ops::run(cx, choose_, args);
    bundle[experts_] = chosen[0];
    bundle[weights_] = chosen[1];
  }

  Tensor grouped(Context& cx,
                 const Tensor& x,
                 const Tensor& counts,
                 const Parameter& weight) const {
    GroupedLinearArgs args;
    args.x = x.arg();
    args.counts = counts.arg();
    args.weight = weight.compute.arg();
    return ops::run(cx, grouped_, args)[0];
  }

  i64 top_k_;
  Slot hidden_, experts_, weights_;
  Metric balance_;
  Operation<TopKArgs> choose_;
  Operation<GroupedLinearArgs> grouped_;
  Swiglu swiglu_;
  Parameter *router_, *gate_up_, *down_;
  std::shared_ptr<TokenDispatcher> dispatcher_;
};

/// All experts live here and every token goes to its first choice: nothing has to move but rows.
class LocalDispatcher final : public TokenDispatcher {
 public:
  struct Config {
    i64 experts = 0;
    static void describe(Schema<Config>& s) {
      s.field("experts", &Config::experts, "experts of the layer").given();
    }
  };
  LocalDispatcher(const Config&, BuildContext& build)
      : counts_(build.slot(build.scope() + ".counts")),
        splits_(build.host_slot(build.scope() + ".splits")) {
    if (build.mesh().size(Axis::expert) > 1) {
      build.reject("type", "the local dispatcher needs parallel.expert = 1");
    }
  }
  ExpertRows do_preprocess(Context& cx,
                           Bundle& bundle,
                           const Tensor& x,
                           const Routing& routing) const override {
    bundle.read_back(cx, splits_, routing.experts);
    bundle[counts_] = routing.experts;
    return {x, routing.weights};
  }
  std::vector<HostSlot> do_reads() const override { return {splits_}; }
  Shapes do_shapes() const override { return Shapes::dynamic; }
  ExpertRows do_dispatch(Context&,
                         Bundle&,
                         const ExpertRows& rows,
                         const Meanwhile& meanwhile) const override {
    meanwhile();
    return rows;
  }
  Tensor do_counts(const Bundle& bundle) const override { return bundle[counts_]; }
  Tensor do_combine(Context&, Bundle&, const Tensor& y, const Meanwhile& meanwhile) const override {
    meanwhile();
    return y;
  }
  Tensor do_unpermute(Context&, Bundle&, const Tensor& y) const override { return y; }

 private:
  Slot counts_;
  HostSlot splits_;
};

void register_all(Registrar& registrar) {
  registrar.add<Layer, Moe>("moe", "router, dispatch, experts, combine");
  registrar.add<TokenDispatcher, LocalDispatcher>("local", "no expert parallelism");
  registrar.add_kernel("host", make_kernel<TopKArgs>(&top_k));
  register_swiglu(registrar);
}

const TestTable& table() {
  static const TestTable kMade({{"ffn", 32}}, {{"model.hidden", 16}});
  return kMade;
}

TEST(MoeLayer, SplitsIntoPhasesThatGraphsCanUse) {
  TestRegistrar registrar;
  register_all(registrar);
  const Mesh mesh(RankGenerator({}), 0);
  TestBuild::Declared declared;
  TestBuild build(registrar, mesh, table(), declared, "layers.1.mlp");
  const auto phases = build.make<Layer>("moe")->phases();
  std::vector<std::string_view> scopes;
  for (const Phase& phase : phases) {
    scopes.push_back(phase.scope);
    const bool dynamic = phase.scope == "moe_dispatch" || phase.scope == "moe_experts" ||
                         phase.scope == "moe_combine";
    EXPECT_EQ(phase.shapes, dynamic ? Shapes::dynamic : Shapes::fixed) << phase.scope;
    EXPECT_EQ(phase.reads.size(), dynamic && phase.scope != "moe_experts" ? 1 : 0) << phase.scope;
  }
  EXPECT_THAT(scopes,
              ::testing::ElementsAre("moe_router",
                                     "moe_preprocess",
                                     "moe_dispatch",
                                     "moe_experts",
                                     "moe_combine",
                                     "moe_unpermute"));
  EXPECT_THAT(declared.slots, ::testing::Contains("layers.1.mlp.dispatcher.counts"));
  EXPECT_THAT(declared.host_slots, ::testing::ElementsAre("layers.1.mlp.dispatcher.splits"));
  EXPECT_THAT(declared.metrics, ::testing::ElementsAre("moe_balance"));
}

TEST(MoeLayer, CutsExpertsOverTheExpertAxis) {
  TestRegistrar registrar;
  register_all(registrar);
  const Mesh mesh(RankGenerator({.world = 4, .expert = 4}), 2);
  TestBuild::Declared declared;
  TestBuild build(registrar, mesh, table(), declared, "mlp");
  EXPECT_THROW(build.make<Layer>("moe"), ConfigError);  // the local dispatcher refuses
  EXPECT_EQ(declared.parameter("mlp.experts.down").logical, (Shape{8, 16, 32}));
  EXPECT_EQ(declared.parameter("mlp.experts.down").local, (Shape{2, 16, 32}));
  EXPECT_EQ(declared.parameter("mlp.router.weight").local, (Shape{8, 16}));
}

TEST(MoeLayer, RejectsMoreChoicesThanExperts) {
  TestRegistrar registrar;
  register_all(registrar);
  const Mesh mesh(RankGenerator({}), 0);
  TestBuild::Declared declared;
  const TestTable wrong({{"ffn", 32}, {"experts", 2}, {"top_k", 3}}, {{"model.hidden", 16}});
  TestBuild build(registrar, mesh, wrong, declared);
  EXPECT_THROW(build.make<Layer>("moe"), ConfigError);
}

TEST(TopK, GivesTiesToTheLowerExpert) {
  TestRegistrar registrar;
  register_all(registrar);
  HostDevice device("host_test", {}, registrar.kernels);
  testing::Workbench bench(device);
  TopKArgs args;
  const Tensor logits = bench.tensor({2, 3}, DType::fp32, {0, 1, 1, 2, 0, 2});
  args.logits = logits.arg();
  args.k = 2;
  const auto chosen = ops::run(bench.context(), Operation<TopKArgs>(device), args);
  EXPECT_THAT(testing::read(chosen[0]), ::testing::ElementsAre(1, 2, 0, 2));
  EXPECT_NEAR(testing::read(chosen[1])[0], std::exp(1) / (1 + 2 * std::exp(1)), 1e-6);
}

TEST(GroupedLinear, InfersFromExpertsAndRows) {
  GroupedLinearArgs args;
  describe(args.x, DType::bf16, {7, 4});
  describe(args.counts, DType::i64, {2});
  describe(args.weight, DType::bf16, {2, 6, 4});
  GroupedLinearArgs::infer(args);
  EXPECT_EQ(args.out.shape[0], 7);
  EXPECT_EQ(args.out.shape[1], 6);
  EXPECT_EQ(args.out.dtype, DType::bf16);
  args.weight.shape[2] = 5;
  EXPECT_THROW(GroupedLinearArgs::infer(args), Error);
}

}  // namespace moe_layer_test
}  // namespace tessera

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernel/comm/build_mesh.hpp"
#include "tessera/error.hpp"
#include "tessera/optimizer.hpp"
#include "tessera/testing/workbench.hpp"
#include "tests/unit/ops/devices_support.hpp"
#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera {
namespace optimizers_test {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using Values = std::vector<double>;

auto near(const Values& values) { return Pointwise(DoubleNear(1e-12), values); }

std::shared_ptr<UpdateRule> make_rule(const Component<UpdateRule>& component,
                                      const std::string& keys) {
  static const std::shared_ptr<Device> kDevice = test_device("reference");
  RuleArguments arguments{kDevice.get()};
  return make_plugin<UpdateRule>(component.type, keys, arguments);
}

/// One rank with a few parameters in fp64 on the reference device.
struct Rank {
  explicit Rank(const Layout& layout = {}, i64 rank = 0)
      : mesh(RankGenerator(layout), rank), bench(*device) {}

  Parameter& add(const std::string& name,
                 const Shape& shape,
                 const Values& values,
                 const Values& gradient,
                 std::vector<std::string> tags = {}) {
    parameters.push_back(bench.parameter(name, bench.tensor(shape, DType::fp64, values)));
    Parameter& parameter = *parameters.back();
    parameter.tags = std::move(tags);
    testing::write(parameter.grad, gradient);
    raw.push_back(&parameter);
    cut(parameter, {});
    return parameter;
  }
  /// What was added is this rank's part of a parameter that these axes cut, the first of them along
  /// dimension 0, the next along 1.
  void cut(Parameter& parameter, const std::vector<Axis>& axes) {
    std::vector<Split> split;
    Shape logical = parameter.local;
    for (const Axis axis : axes) {
      const int dim = static_cast<int>(split.size());
      split.push_back({.dim = dim, .axis = axis});
      logical[dim] *= mesh.size(axis);
    }
    parameter.layout = ParameterLayout(logical, split, Placement::replicated(), mesh);
  }

  std::shared_ptr<Optimizer> optimizer(const std::string& keys,
                                       const std::string& rule_keys = "",
                                       std::shared_ptr<UpdateRule> rule = nullptr) {
    move_to_memory();
    OptimizerArguments arguments;
    std::vector<ParameterName> names;
    for (const Parameter* p : raw) names.push_back({p->name, p->tags});
    arguments.parameters = raw;
    arguments.model = names;
    arguments.memory = &memory;
    arguments.mesh = &mesh;
    arguments.device = device.get();
    arguments.make_rule = [=](const Component<UpdateRule>& component) {
      return rule ? rule : make_rule(component, rule_keys);
    };
    return make_plugin<Optimizer>(type, keys, arguments);
  }

  /// Places them as PlacedModel and GradientSync do, with the values that they have.
  void move_to_memory() {
    std::vector<std::pair<Values, Values>> values;
    for (const Parameter* p : raw) {
      values.emplace_back(testing::read(p->main), testing::read(p->grad));
    }
    const bool sharded = type == "distributed";
    if (sharded) build_mesh(mesh);
    memory = ParameterMemory(raw, BucketRules::of(mesh, 2, sharded, false));
    memory.allocate_values(*device, DType::fp64, compute);
    memory.allocate_gradients(*device);
    for (std::size_t i = 0; i < raw.size(); ++i) {
      testing::write(raw[i]->main, values[i].first);
      testing::write(raw[i]->grad, values[i].second);
    }
  }

  Tensor scalars(double lr, double steps = 1, double scale = 1, double found_inf = 0) {
    return bench.tensor(
        {step_scalar::kCount}, DType::fp64, {steps, lr, 1, found_inf, 0, scale, 0, 0, 0});
  }

  double sum_squares(Optimizer& optimizer, double before = 0) {
    const Tensor out = bench.tensor({2}, DType::fp64, {before, 0});
    optimizer.sum_squares(bench.context(), out);
    const Values sums = testing::read(out);
    return sums[0] + sums[1];
  }

  std::shared_ptr<Device> device = test_device("reference");
  Mesh mesh;
  testing::Workbench bench;
  std::vector<std::unique_ptr<Parameter>> parameters;
  std::vector<Parameter*> raw;
  DType compute = DType::fp64;
  std::string type = "replicated";
  ParameterMemory memory;
};

constexpr auto kSgd = "[component.rule]\ntype = \"sgd\"\n";

TEST(Replicated, SgdStepChangesEveryParameter) {
  Rank rank;
  Parameter& weight = rank.add("weight", {2, 2}, {1, 2, 3, 4}, {1, 0, -2, 4});
  Parameter& bias = rank.add("bias", {2}, {1, 1}, {8, 0}, {"bias"});
  const auto optimizer = rank.optimizer(kSgd, "weight_decay = 0.5");
  EXPECT_EQ(optimizer->clip(), 1.0);
  EXPECT_TRUE(optimizer->state().empty());
  optimizer->step(rank.bench.context(), rank.scalars(0.1, 1, 0.5));
  // w - lr (g scale + decay w); no decay of the bias
  EXPECT_THAT(testing::read(weight.main), near({0.9, 1.9, 2.95, 3.6}));
  EXPECT_THAT(testing::read(bias.main), near({0.6, 1}));
  EXPECT_THAT(testing::read(weight.grad), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(testing::read(bias.grad), ElementsAre(0, 0));
}

TEST(Replicated, SgdWithMomentumKeepsABuffer) {
  Rank rank;
  Parameter& weight = rank.add("weight", {1}, {1}, {1});
  const auto optimizer = rank.optimizer(kSgd, "momentum = 0.5");
  const auto state = optimizer->state();
  ASSERT_EQ(state.size(), 1U);
  EXPECT_EQ(state[0].name, "momentum_buffer");
  optimizer->step(rank.bench.context(), rank.scalars(1, 1));
  testing::write(weight.grad, {2});
  optimizer->step(rank.bench.context(), rank.scalars(1, 2));
  EXPECT_THAT(testing::read(weight.main), near({1 - 1 - 2.5}));
  EXPECT_THAT(testing::read(state[0].tensor), near({2.5}));
}

/// Loshchilov, Hutter 2019, algorithm 2, one element.
struct AdamReference {
  double w, m = 0, v = 0;
  void step(double g, int t, double lr, double decay) {
    m = 0.8 * m + 0.2 * g;
    v = 0.9 * v + 0.1 * g * g;
    const double mean = m / (1 - std::pow(0.8, t)), square = v / (1 - std::pow(0.9, t));
    w -= lr * (mean / (std::sqrt(square) + 1e-3) + decay * w);
  }
};

TEST(Replicated, AdamWFollowsTheAlgorithm) {
  Rank rank;
  Parameter& weight = rank.add("weight", {2}, {1, -2}, {0, 0});
  const auto optimizer =
      rank.optimizer("", "beta1 = 0.8\nbeta2 = 0.9\neps = 1e-3\nweight_decay = 0.3");
  AdamReference first{1}, second{-2};
  for (int t = 1; t <= 4; ++t) {
    testing::write(weight.grad, {0.5 * t, -3});
    optimizer->step(rank.bench.context(), rank.scalars(0.1 / t, t));
    first.step(0.5 * t, t, 0.1 / t, 0.3);
    second.step(-3, t, 0.1 / t, 0.3);
  }
  EXPECT_THAT(testing::read(weight.main), near({first.w, second.w}));
  const auto state = optimizer->state();
  ASSERT_EQ(state.size(), 2U);
  EXPECT_EQ(state[0].name, "first_moment");
  EXPECT_EQ(state[1].name, "second_moment");
  EXPECT_EQ(state[1].parameter, &weight);
  EXPECT_THAT(testing::read(state[0].tensor), near({first.m, second.m}));
  EXPECT_THAT(testing::read(state[1].tensor), near({first.v, second.v}));
}

TEST(Replicated, ASkippedStepChangesNothingButGradients) {
  Rank rank;
  Parameter& weight = rank.add("weight", {2}, {1, 2}, {5, NAN});
  const auto optimizer = rank.optimizer("");
  optimizer->step(rank.bench.context(), rank.scalars(0.1, 1, 1, 1));
  EXPECT_THAT(testing::read(weight.main), ElementsAre(1, 2));
  EXPECT_THAT(testing::read(weight.grad), ElementsAre(0, 0));
  for (const NamedState& state : optimizer->state()) {
    EXPECT_THAT(testing::read(state.tensor), ElementsAre(0, 0));
  }
}

TEST(Replicated, WritesTheComputeForm) {
  Rank rank;
  rank.compute = DType::bf16;
  const Parameter& weight = rank.add("weight", {2}, {1, 2}, {1, 1});
  const auto optimizer = rank.optimizer(kSgd);
  optimizer->step(rank.bench.context(), rank.scalars(0.25));
  EXPECT_THAT(testing::read(weight.compute), ElementsAre(0.75, 1.75));
}

// However many parameters there are, a step launches the same.
TEST(Replicated, NormAndUpdateAreOneLaunchEach) {
  Rank rank;
  for (const char* name : {"a", "b", "c", "d"}) rank.add(name, {3}, {1, 2, 3}, {1, 1, 1});
  const auto optimizer = rank.optimizer("");
  const Tensor out = rank.bench.tensor({2}, DType::fp64, {0, 0}), scalars = rank.scalars(0.1);
  Context& cx = rank.bench.context();
  const auto run = [&] {
    optimizer->sum_squares(cx, out);
    optimizer->step(cx, scalars);
  };
  run();  // the first use sets an operation up, which a capture refuses
  cx.device->begin_capture(*cx.stream);
  run();
  EXPECT_EQ(cx.device->end_capture(*cx.stream)->launches(), 2);
}

TEST(Replicated, StateCoversTheParameterAndStartsAtZero) {
  Rank rank;
  rank.add("weight", {2, 3}, Values(6, 1), Values(6, 1));
  const i64 before = rank.device->memory().bytes[static_cast<std::size_t>(Category::optimizer)];
  const auto optimizer = rank.optimizer("");
  ASSERT_FALSE(optimizer->state().empty());
  for (const NamedState& state : optimizer->state()) {
    EXPECT_EQ(state.range.begin, 0);
    EXPECT_EQ(state.range.length, 6);
    EXPECT_EQ(state.tensor.shape(), (Shape{6}));
    EXPECT_EQ(state.tensor.dtype(), DType::fp64);
    EXPECT_EQ(testing::read(state.tensor), Values(6, 0));
  }
  const i64 after = rank.device->memory().bytes[static_cast<std::size_t>(Category::optimizer)];
  EXPECT_GE(after - before, 2 * 6 * 8);
}

TEST(Replicated, GroupsHaveTheirOwnHyperparameters) {
  Rank rank;
  Parameter& head = rank.add("head.weight", {1}, {1}, {1});
  Parameter& bias = rank.add("layers.0.bias", {1}, {1}, {1}, {"bias"});
  Parameter& other = rank.add("layers.0.weight", {1}, {1}, {1});
  const auto optimizer = rank.optimizer(std::string("clip = 0\n") + kSgd +
                                            "[component.groups.head]\nmatch = \"head.*\"\n"
                                            "lr_scale = 0.5\n"
                                            "[component.groups.biases]\nmatch = \"tag:bias\"\n"
                                            "weight_decay = 4.0\n",
                                        "weight_decay = 2");
  EXPECT_EQ(optimizer->clip(), 0.0);
  optimizer->step(rank.bench.context(), rank.scalars(0.1));
  EXPECT_THAT(testing::read(head.main), near({1 - 0.05 * (1 + 2)}));
  EXPECT_THAT(testing::read(bias.main), near({1 - 0.1 * (1 + 4)}));
  EXPECT_THAT(testing::read(other.main), near({1 - 0.1 * (1 + 2)}));
}

TEST(Replicated, RefusesGroupsThatAreEmptyOrOverlap) {
  Rank rank;
  rank.add("head.weight", {1}, {1}, {1});
  EXPECT_THAT(
      text_of<ConfigError>([&] { rank.optimizer("[component.groups.tail]\nmatch = \"tail.*\""); }),
      HasSubstr("optimizer.groups.tail.match: \"tail.*\" is the name or tag of no"));
  EXPECT_THAT(text_of<ConfigError>([&] {
                rank.optimizer(
                    "[component.groups.a]\nmatch = \"head.*\"\n[component.groups.b]\nmatch = "
                    "\"*.weight\"");
              }),
              HasSubstr("head.weight is in two groups, [optimizer.groups.a] and"));
  EXPECT_THAT(text_of<ConfigError>([&] { rank.optimizer("clip = -1"); }), HasSubstr("clip"));
}

TEST(Replicated, CountsEachElementOnceOverTheTensorRanks) {
  // Logical: a cut weight of 4 and a whole norm of 2; gradients as both ranks hold them.
  double sum = 0;
  for (const i64 index : {0, 1}) {
    Rank rank({.world = 2, .tensor = 2}, index);
    Parameter& weight = rank.add("weight", {2}, {0, 0}, index == 0 ? Values{1, 2} : Values{3, 4});
    rank.cut(weight, {Axis::tensor});
    rank.add("norm", {2}, {0, 0}, {5, 6}, {"norm"});
    sum += rank.sum_squares(*rank.optimizer(""));
  }
  EXPECT_DOUBLE_EQ(sum, 1 + 4 + 9 + 16 + 25 + 36);
}

// Their sums are of other groups than those of the dense part.
TEST(Replicated, SumsSquaresOfExpertsApart) {
  for (const char* type : {"replicated", "distributed"}) {
    Rank rank;
    rank.type = type;
    rank.add("dense", {2}, {0, 0}, {1, 2});
    rank.cut(rank.add("experts", {1, 2}, {0, 0}, {3, 4}), {Axis::expert, Axis::expert_tensor});
    rank.add("more", {1}, {0}, {5});
    const Tensor out = rank.bench.tensor({2}, DType::fp64, {100, 1000});
    rank.optimizer("")->sum_squares(rank.bench.context(), out);
    EXPECT_THAT(testing::read(out), ElementsAre(130, 1025)) << type;
  }
}

// World 4, tp 2, etp 1, ep 2: a matrix that expert_tensor alone cuts is whole on both ranks of ep.
TEST(Replicated, CountsEachExpertOnceOverTheRanksThatShareThem) {
  double sum = 0;
  for (const i64 index : {0, 1}) {
    Rank rank({.world = 4, .tensor = 2, .expert = 2, .expert_tensor = 1}, index);
    rank.cut(rank.add("cut", {1}, {0}, {index + 1.0}), {Axis::expert});
    rank.cut(rank.add("whole", {1}, {0}, {3}), {Axis::expert_tensor});
    sum += rank.sum_squares(*rank.optimizer(""));
  }
  EXPECT_DOUBLE_EQ(sum, 1 + 4 + 9);
}

TEST(Replicated, EveryDataReplicaCountsAllAndAdds) {
  for (const i64 index : {0, 1}) {
    Rank rank({.world = 2}, index);
    rank.add("a", {2}, {0, 0}, {1, 2});
    rank.add("b", {1}, {0}, {3});
    EXPECT_DOUBLE_EQ(rank.sum_squares(*rank.optimizer(""), 100), 114);
  }
}

TEST(Replicated, EveryPipelineStageCountsItsOwn) {
  Rank rank({.world = 2, .pipeline = 2}, 1);
  rank.add("a", {2}, {0, 0}, {1, 2});
  EXPECT_DOUBLE_EQ(rank.sum_squares(*rank.optimizer("")), 5);
}

TEST(Replicated, RefusesWhatItCannotUpdate) {
  Rank experts({.world = 2, .expert = 2}, 0);
  experts.cut(experts.add("e", {2}, {0, 0}, {0, 0}), {Axis::expert});
  EXPECT_NO_THROW(experts.optimizer(""));

  Rank context({.world = 2, .context = 2}, 0);
  context.cut(context.add("c", {2}, {0, 0}, {0, 0}), {Axis::context});
  EXPECT_THAT(text_of<ConfigError>([&] { context.optimizer(""); }),
              HasSubstr("whole or cut over tensor or expert parallelism; c is cut 2 ways over cp"));
}

// A rank alone updates everything. With others: tests/multirank.
TEST(Distributed, AloneDoesWhatReplicatedDoes) {
  std::vector<Values> results;
  for (const char* type : {"replicated", "distributed"}) {
    Rank rank;
    rank.type = type;
    Parameter& weight = rank.add("weight", {2, 2}, {1, 2, 3, 4}, {1, 0, -2, 4});
    Parameter& bias = rank.add("bias", {2}, {1, 1}, {8, 0}, {"bias"});
    const auto optimizer = rank.optimizer("");
    const double sum = rank.sum_squares(*optimizer, 100);
    EXPECT_EQ(sum, 185);
    optimizer->step(rank.bench.context(), rank.scalars(0.1, 1, 0.5));
    Values all = testing::read(weight.main);
    for (const Tensor& tensor : {bias.main, weight.grad, bias.grad}) {
      for (const double value : testing::read(tensor)) all.push_back(value);
    }
    for (const NamedState& state : optimizer->state()) {
      EXPECT_EQ(state.range.length, state.parameter->local.elements());
      for (const double value : testing::read(state.tensor)) all.push_back(value);
    }
    results.push_back(all);
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST(Rules, NameTheirWeightDecay) {
  EXPECT_EQ(make_rule({"adamw"}, "")->weight_decay(), 0.01);
  EXPECT_EQ(make_rule({"sgd"}, "")->weight_decay(), 0.0);
  EXPECT_THAT(text_of<ConfigError>([] { make_rule({"adamw"}, "beta1 = 1.0"); }),
              HasSubstr("beta1"));
}

}  // namespace optimizers_test
}  // namespace tessera

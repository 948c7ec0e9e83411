// Rules whose state has a shape of its own: a factored second moment (the example's rule), and a
// distance that all parameters share and that sums over the whole model move, as in Prodigy
// (Mishchenko, Defazio 2023).
#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "common/error_of.hpp"
#include "moe_rows_support.hpp"
#include "tessera/error.hpp"
#include "tessera/operation.hpp"
#include "tessera/ops.hpp"
#include "tessera/optimizer.hpp"
#include "tessera/plugin.hpp"
#include "tessera/testing/workbench.hpp"

namespace tessera::testing {
namespace own_state_test {

using namespace moe_rows;
using ::testing::HasSubstr;

// s = 0.9 s + 0.1 d g; sums += Σ g · moved, Σ |s|.
struct DistanceSumsArgs {
  static constexpr std::string_view kName = "test.distance_sums";
  static constexpr int kTensors = 6, kOutputs = 2;
  TensorArg scalars, grad, moved, distance, s, sums;
  static void infer(DistanceSumsArgs&) {}
};
void distance_sums(const DistanceSumsArgs& a) {
  const double scale = a.scalars.as<double>()[step_scalar::kGradientScale];
  const double d = *a.distance.as<double>();
  double* s = a.s.as<double>();
  for (i64 i = 0; i < a.grad.elements(); ++i) {
    const double g = scale * a.grad.as<double>()[i];
    s[i] = 0.9 * s[i] + 0.1 * d * g;
    a.sums.as<double>()[0] += g * a.moved.as<double>()[i];
    a.sums.as<double>()[1] += std::abs(s[i]);
  }
}

// d = max(d, sums[0] / sums[1]); main -= lr d g, and moved by as much.
struct DistanceStepArgs {
  static constexpr std::string_view kName = "test.distance_step";
  static constexpr int kTensors = 6, kOutputs = 4;
  TensorArg scalars, sums, grad, main, moved, distance;
  static void infer(DistanceStepArgs&) {}
};
void distance_step(const DistanceStepArgs& a) {
  const double* scalars = a.scalars.as<double>();
  const double scale = scalars[step_scalar::kGradientScale];
  const double* sums = a.sums.as<double>();
  double& d = *a.distance.as<double>();
  d = std::max(d, sums[0] / (sums[1] + 1e-12));
  for (i64 i = 0; i < a.grad.elements(); ++i) {
    const double step = scalars[step_scalar::kLearningRate] * d * scale * a.grad.as<double>()[i];
    a.main.as<double>()[i] -= step;
    a.moved.as<double>()[i] += step;
    a.grad.as<double>()[i] = 0;
  }
}

StateShape one_number(const Parameter&) { return {}; }

template <bool whole>
class Distance : public UpdateRule {
 public:
  using Config = NoConfig;
  static constexpr bool kWholeParameters = whole;
  Distance(const Config&, RuleArguments& arguments)
      : sums_(*arguments.device), step_(*arguments.device) {}
  std::vector<StateSpec> do_state() const override {
    return {{.name = "moved"},
            {.name = "s"},
            {.name = "distance", .shape = &one_number, .initial = 1e-3}};
  }
  i64 do_sums() const override { return 2; }
  void do_add_sums(Context& cx,
                   const Shards& shards,
                   const Tensor& scalars,
                   const Tensor& sums) const override {
    for (std::size_t i = 0; i < shards.list.size(); ++i) {
      DistanceSumsArgs args{scalars.arg(),
                            shards.grad_of(i).arg(),
                            shards.state_of(0, i).arg(),
                            shards.state_of(2, i).arg(),
                            shards.state_of(1, i).arg(),
                            sums.arg()};
      ops::run(cx, sums_, args);
    }
  }
  void do_update(Context& cx, const Shards& shards, const Tensor& scalars) const override {
    for (std::size_t i = 0; i < shards.list.size(); ++i) {
      DistanceStepArgs args{scalars.arg(),
                            shards.sums.arg(),
                            shards.grad_of(i).arg(),
                            shards.main_of(i).arg(),
                            shards.state_of(0, i).arg(),
                            shards.state_of(2, i).arg()};
      ops::run(cx, step_, args);
    }
  }

 private:
  Operation<DistanceSumsArgs> sums_;
  Operation<DistanceStepArgs> step_;
};

const PluginHost& host() {
  static const std::unique_ptr<PluginHost> kHost = [] {
    auto made = load_plugins();
    made->add_builtin([](Registrar& registrar) {
      registrar.add<UpdateRule, Distance<true>>("distance", "a distance of the whole model");
      registrar.add<UpdateRule, Distance<false>>("cut_distance", "the same, of any parts");
      registrar.add_kernel("host", make_kernel<DistanceSumsArgs>(&distance_sums));
      registrar.add_kernel("host", make_kernel<DistanceStepArgs>(&distance_step));
    });
    return made;
  }();
  return *kHost;
}

const Sets kDouble = {"precision.compute=\"fp64\"", "precision.main=\"fp64\""};
const Sets kAdafactor = {"optimizer.rule.type=\"adafactor\""};
const Sets kDistance = with(kDouble, {"optimizer.rule.type=\"distance\"", "lr.peak=3"});

struct Row {
  std::string name;
  Sets rule, layout;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

std::vector<Row> rows() {
  const Sets tensor = {"parallel.tensor=2", "parallel.data=2"};
  const std::pair<std::string, Sets> layouts[] = {
      {"dp2", {"parallel.data=2"}},
      {"tp2", {"parallel.tensor=2", "model.vocab_multiple=24"}},
      {"tp4_sp", {"parallel.tensor=4", kRows}},
      {"pp2_tp2", {"parallel.pipeline=2", "schedule.type=\"1f1b\"", "parallel.tensor=2"}},
      {"cp2", {"parallel.context=2"}},
      {"distributed_tp2_dp2", with(tensor, {kDistributed})},
      {"distributed_tp2_cp2_dp2_sp", with(tensor, {"parallel.context=2", kRows, kDistributed})}};
  const std::pair<std::string, Sets> of_experts[] = {
      {"dp4_ep2", experts(2, {"parallel.data=4"})},
      {"tp2_sp_ep2_etp1", experts(2, parts(1, kTensorRows))},
      {"tp2_sp_etp2", parts(2, kTensorRows)},
      {"distributed_cp2_dp2_ep2",
       experts(2, {"parallel.context=2", "parallel.data=2", kDistributed})}};
  std::vector<Row> all;
  for (const auto& [rule, sets] : {std::pair("adafactor", kAdafactor), {"distance", kDistance}}) {
    const Sets dense = with({"model.layers=4"}, sets), mixed = with(with(model(), kDouble), sets);
    for (const auto& [name, layout] : layouts) all.push_back({rule + ("_" + name), dense, layout});
    for (const auto& [name, layout] : of_experts)
      all.push_back({rule + ("_" + name), mixed, layout});
  }
  return all;
}

class OwnState : public ::testing::TestWithParam<Row> {};

TEST_P(OwnState, TrainsAsOneRankDoes) {
  const auto& [name, rule, layout] = GetParam();
  TrainOptions options{.steps = kTableSteps};
  options.host = &host();
  const Training single = train(tiny_config(), rule, options);
  const Training run = train(tiny_config(), with(rule, layout), options);
  EXPECT_EQ(difference(run.losses, single.losses, kLossTolerance, "loss"), "");
  EXPECT_EQ(difference(run.norms, single.norms, kNormTolerance, "gradient norm"), "");
}

INSTANTIATE_TEST_SUITE_P(Rows, OwnState, ::testing::ValuesIn(rows()), [](const auto& info) {
  return info.param.name;
});

TEST(OwnStateOfReplicas, HasTheBitsOfOneThatIsNotDivided) {
  TrainOptions options{.steps = kTableSteps};
  options.host = &host();
  const Sets dp4 = with(kAdafactor, {"parallel.data=4"});
  const Training replicated = train(tiny_config(), dp4, options);
  const Training distributed = train(tiny_config(), with(dp4, {kDistributed}), options);
  EXPECT_EQ(distributed.losses, replicated.losses);
  EXPECT_EQ(distributed.parameters, replicated.parameters);
}

// Sums count each logical element once: replicas, copies and other stages' parameters alike.
TEST(OwnStateSums, MoveOneDistanceOfTheWholeModel) {
  const auto distance_of = [](const Sets& layout) {
    std::mutex mutex;
    std::vector<double> all;
    TrainOptions options{.steps = 4};
    options.host = &host();
    options.at_end = [&](RankRun& run) {
      const std::lock_guard lock(mutex);
      for (const NamedState& state : run.step().optimizer().state()) {
        if (state.name != "distance" || state.range.length == 0) continue;
        EXPECT_EQ(state.tensor_of().logical, Shape()) << state.parameter->name;
        all.push_back(read(state.tensor).at(0));
      }
    };
    train(tiny_config(), with(kDistance, layout), options);
    EXPECT_FALSE(all.empty());
    for (const double d : all) EXPECT_EQ(d, all[0]);
    return all.empty() ? 0 : all[0];
  };
  const double single = distance_of({});
  EXPECT_GT(single, 1e-3) << "it moves";
  for (const Sets& layout : {Sets{"parallel.data=2"},
                             Sets{"parallel.data=2", kDistributed},
                             Sets{"parallel.tensor=2", kRows},
                             Sets{"parallel.pipeline=2", "schedule.type=\"1f1b\""}}) {
    EXPECT_NEAR(distance_of(layout), single, 1e-9 * single);
  }
}

// Under every layout, so that a rule that works on one rank does not fail on two.
TEST(OwnStateRules, HaveToSeeWholeParameters) {
  TrainOptions options;
  options.host = &host();
  EXPECT_THAT(
      error_of<ConfigError>([&] {
        train(tiny_config(), with(kDouble, {"optimizer.rule.type=\"cut_distance\""}), options);
      }),
      HasSubstr("[optimizer.rule] type = \"cut_distance\": the state \"distance\" has a "
                "shape of its own, which needs whole parameters; state `static constexpr "
                "bool kWholeParameters = true` in the class of the rule"));
}

}  // namespace own_state_test
}  // namespace tessera::testing

// The first step of rules that ship, from the parameters before and after it.
#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "moe_rows_support.hpp"

namespace tessera::testing {
namespace rules_test {

using namespace moe_rows;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kRate = 1e-3;

// A constant rate, no decay, in double precision, so that differences are exact enough.
Sets with_rule(const std::string& rule) {
  return {"precision.compute=\"fp64\"",
          "precision.main=\"fp64\"",
          fmt::format("optimizer.rule.type=\"{}\"", rule),
          "optimizer.rule.weight_decay=0",
          "lr.type=\"constant\"",
          fmt::format("lr.peak={}", kRate),
          "lr.warmup_steps=0"};
}

using Values = std::vector<double>;

// Parameters before the first step minus those after it.
std::map<std::string, Values> moves(const Sets& sets) {
  std::map<std::string, Values> moved = train(tiny_config(), sets, {.steps = 0}).parameters;
  const Training after = train(tiny_config(), sets, {.steps = 1});
  for (auto& [name, values] : moved) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] -= after.parameters.at(name)[i];
  }
  return moved;
}

// Σ over elements of (x xᵀ - 1)², x [rows, columns].
double distance_from_orthogonal(const Values& x, std::size_t rows, std::size_t columns) {
  double sum = 0;
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < rows; ++j) {
      double product = i == j ? -1 : 0;
      for (std::size_t k = 0; k < columns; ++k) product += x[i * columns + k] * x[j * columns + k];
      sum += product * product;
    }
  }
  return sum;
}

// Five iterations bring singular values to 0.7 … 1.2; those of a gradient differ by far more.
TEST(Muon, MovesMatricesAlongOrthogonalMatrices) {
  auto moved = moves(with_rule("muon"));
  for (const auto& [name, rows, columns] :
       {std::tuple{"layers.0.mlp.up.weight", 16, 64}, {"layers.1.attention.proj.weight", 16, 16}}) {
    Values x = moved.at(name);
    ASSERT_EQ(x.size(), static_cast<std::size_t>(rows * columns)) << name;
    const double step = kRate * 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns)));
    for (double& value : x) value /= step;
    EXPECT_LT(distance_from_orthogonal(
                  x, static_cast<std::size_t>(rows), static_cast<std::size_t>(columns)),
              0.3 * rows)
        << name;
  }
}

TEST(Muon, UpdatesEverythingElseAsAdamW) {
  const auto muon = moves(with_rule("muon")), adamw = moves(with_rule("adamw"));
  for (const char* name : {"embedding.position", "layers.0.mlp.up.bias", "head.norm.weight"}) {
    EXPECT_EQ(muon.at(name), adamw.at(name)) << name;
  }
  EXPECT_NE(muon.at("layers.0.mlp.up.weight"), adamw.at("layers.0.mlp.up.weight"));
}

// Two states of one name would be taken for each other when a run goes on under another rule.
TEST(Muon, KeepsAMomentumOfMatricesAndMomentsOfTheRest) {
  TrainOptions options;
  options.at_end = [](RankRun& run) {
    std::map<std::string, std::set<std::string>> states;
    for (const NamedState& state : run.step().optimizer().state()) {
      states[state.parameter->name].insert(state.name);
    }
    EXPECT_EQ(states.size(), run.parts().parameter_list().size());
    for (const char* matrix : {"layers.0.mlp.up.weight", "layers.1.attention.qkv.weight"}) {
      EXPECT_THAT(states[matrix], ElementsAre("momentum")) << matrix;
    }
    for (const char* other : {"embedding.weight", "layers.0.mlp.up.bias", "head.norm.weight"}) {
      EXPECT_THAT(states[other], ElementsAre("first_moment", "second_moment")) << other;
    }
  };
  train(tiny_config(), {"optimizer.rule.type=\"muon\""}, options);
}

TEST(Muon, UpdatesExpertsAsAdamWAndSaysSo) {
  const Sets experts = {
      "model.block.mlp.type=\"moe\"", "model.block.mlp.experts=4", "model.block.mlp.ffn=8"};
  const auto muon = moves(with(with_rule("muon"), experts));
  const auto adamw = moves(with(with_rule("adamw"), experts));
  for (const char* name : {"layers.0.mlp.experts.up", "layers.1.mlp.experts.down"}) {
    EXPECT_EQ(muon.at(name), adamw.at(name)) << name;
  }
  EXPECT_THAT(plugins().find(UpdateRule::kKind, "muon")->doc,
              HasSubstr("AdamW updates the weights of experts"));
}

// Under muon a matrix cut by tensor parallelism is orthogonalised whole: the table's bounds hold.
struct RuleRow {
  std::string name;
  Sets rule, layout;
};
void PrintTo(const RuleRow& row, std::ostream* out) { *out << row.name; }

std::vector<RuleRow> rule_rows() {
  const Sets narrow = {"optimizer.state_dtype=\"bf16\"", "optimizer.rule.beta2=0.95"};
  const std::pair<std::string, Sets> rules[] = {
      {"muon", {"optimizer.rule.type=\"muon\""}},
      {"lion", {"optimizer.rule.type=\"lion\""}},
      {"sgd", {"optimizer.rule.type=\"sgd\""}},
      {"narrow_moments", narrow},
      {"muon_narrow_moments", with(narrow, {"optimizer.rule.type=\"muon\""})}};
  const Sets tensor = {"parallel.tensor=2", "parallel.data=2"};
  const std::pair<std::string, Sets> layouts[] = {
      {"dp2", {"parallel.data=2"}},
      {"tp2", {"parallel.tensor=2"}},
      {"tp4_sp", {"parallel.tensor=4", kRows}},
      {"cpu_tp2_dp2", with(tensor, {"device.type=\"cpu\""})},
      {"cp2", {"parallel.context=2"}},
      {"pp2_tp2", {"parallel.pipeline=2", "schedule.type=\"1f1b\"", "parallel.tensor=2"}},
      {"pp2_interleaved", stages("interleaved_1f1b", {"schedule.chunks=2"})},
      {"pp2_zbv", stages("zbv", {})},
      {"distributed_tp2_dp2", with(tensor, {kDistributed})},
      {"distributed_tp2_cp2_dp2_sp", with(tensor, {"parallel.context=2", kRows, kDistributed})}};
  // In double precision, so that no near tie of two experts flips.
  const Sets mixture = with(model(), {"precision.compute=\"fp64\"", "precision.main=\"fp64\""});
  const std::pair<std::string, Sets> of_experts[] = {
      {"dp4_ep2", experts(2, {"parallel.data=4"})},
      {"tp2_sp_ep2_etp1", experts(2, parts(1, kTensorRows))},
      {"distributed_cp2_dp2_ep2",
       experts(2, {"parallel.context=2", "parallel.data=2", kDistributed})}};
  std::vector<RuleRow> all;
  for (const auto& [rule, sets] : rules) {
    const Sets dense = with({"model.layers=4"}, sets), mixed = with(mixture, sets);
    for (const auto& [name, layout] : layouts) all.push_back({rule + "_" + name, dense, layout});
    for (const auto& [name, layout] : of_experts) all.push_back({rule + "_" + name, mixed, layout});
  }
  return all;
}

class RuleLayouts : public ::testing::TestWithParam<RuleRow> {};

TEST_P(RuleLayouts, TrainAsOneRankDoes) {
  const auto& [name, rule, layout] = GetParam();
  const Training single = train(tiny_config(), rule, {.steps = kTableSteps});
  const Training run = train(tiny_config(), with(rule, layout), {.steps = kTableSteps});
  EXPECT_EQ(difference(run.losses, single.losses, kLossTolerance, "loss"), "");
  EXPECT_EQ(difference(run.norms, single.norms, kNormTolerance, "gradient norm"), "");
}

INSTANTIATE_TEST_SUITE_P(Layouts,
                         RuleLayouts,
                         ::testing::ValuesIn(rule_rows()),
                         [](const auto& info) { return info.param.name; });

// The first step of a momentum of zero is as long for every element that has a gradient.
TEST(Lion, StepsByTheSign) {
  const auto moved = moves(with_rule("lion"));
  for (const double value : moved.at("layers.0.mlp.up.weight")) {
    EXPECT_NEAR(std::abs(value), kRate, 1e-12);
  }
}

}  // namespace rules_test
}  // namespace tessera::testing

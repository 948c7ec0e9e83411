// Metrics of how rows spread over experts: the same numbers in every layout, however a step runs.
#include <gmock/gmock.h>

#include <cmath>

#include "common/metrics_lines.hpp"
#include "invariant_support.hpp"
#include "trainer_support.hpp"

namespace tessera::testing {
namespace expert_load_test {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr i64 kExperts = 8, kTopK = 2, kLayers = 4;
const Sets kModel = {"precision.compute=\"fp64\"",  // so that no choice depends on rounding
                     "precision.main=\"fp64\"",
                     "model.layers=4",
                     "model.block.mlp.type=\"moe\"",
                     "model.block.mlp.experts=8",
                     "model.block.mlp.ffn=8",
                     "model.block.mlp.init_std=0.5",
                     "run.steps=3",
                     "checkpoint.save=false"};
const std::string kCapacity = "model.block.mlp.capacity_factor=0.75";

// What a run reports, by the line of each step.
struct Loads {
  std::vector<double> imbalance, empty, dropped;
  std::vector<std::string> by_layer;
};
bool operator==(const Loads& a, const Loads& b) {
  return a.imbalance == b.imbalance && a.empty == b.empty && a.dropped == b.dropped &&
         a.by_layer == b.by_layer;
}
void PrintTo(const Loads& loads, std::ostream* out) {
  *out << ::testing::PrintToString(loads.imbalance) << ::testing::PrintToString(loads.empty)
       << ::testing::PrintToString(loads.dropped) << ::testing::PrintToString(loads.by_layer);
}

Loads loads_of(const Sets& sets) {
  const TestFolder folder;
  const std::string out = folder.at("run");
  run_trainer({tiny_config() + "[observers.console]\ntype = \"none\"\n",
               with(with(kModel, sets), {"run.out=" + out})});
  Loads loads{metric_of(out, "moe_imbalance"),
              metric_of(out, "moe_empty_experts"),
              metric_of(out, "moe_dropped"),
              {}};
  for (const std::string& line : metrics_lines(out)) {
    const std::size_t at = line.find("\"moe_imbalance_by_layer\":[");
    if (at == std::string::npos) continue;
    loads.by_layer.push_back(line.substr(at, line.find(']', at) - at));
  }
  return loads;
}

// A router without weights has equal scores: all rows take the first experts.
TEST(ExpertLoad, OfARouterThatCollapsed) {
  const Loads all = loads_of({"model.block.mlp.router.init_std=0", "run.steps=1", kCapacity});
  EXPECT_THAT(all.imbalance, ElementsAre(4)) << "experts / top_k";
  EXPECT_THAT(all.empty, ElementsAre(24)) << "layers · (experts - top_k)";
  // Each of two experts takes ceil(8 · 2 / 8 · 0.75) = 2 of 8 rows.
  EXPECT_THAT(all.dropped, ElementsAre(0.75));
  EXPECT_THAT(all.by_layer, Each("\"moe_imbalance_by_layer\":[4.0,4.0,4.0,4.0"));
}

TEST(ExpertLoad, OfAsManyChoicesAsExpertsIsEven) {
  const Loads even = loads_of({"model.block.mlp.top_k=8"});
  EXPECT_THAT(even.imbalance, ElementsAre(1, 1, 1));
  EXPECT_THAT(even.empty, ElementsAre(0, 0, 0));
  EXPECT_TRUE(even.dropped.empty()) << "there is no capacity";
}

TEST(ExpertLoad, IsTheSameInEveryLayout) {
  const Loads one = loads_of({kCapacity});
  ASSERT_EQ(one.imbalance.size(), 3U);
  ASSERT_EQ(one.by_layer.size(), 3U);
  EXPECT_GT(one.imbalance[0], 1);
  EXPECT_LT(one.imbalance[0], kExperts / kTopK);
  EXPECT_GT(one.dropped[0], 0);
  EXPECT_EQ(std::ranges::count(one.by_layer[0], ','), kLayers - 1);
  const Sets layouts[] = {
      {"batch.micro=1"},
      {"batch.micro=8"},
      {"parallel.tensor=2"},
      {"parallel.tensor=2",
       "parallel.context=2",
       "parallel.data=2",
       "parallel.sequence_parallel=true",
       "parallel.expert=2",
       "parallel.expert_tensor=1"},
      {"parallel.pipeline=2", "parallel.data=2", "parallel.expert=2", "batch.micro=1"}};
  for (const Sets& layout : layouts) {
    EXPECT_EQ(loads_of(with(layout, {kCapacity})), one) << ::testing::PrintToString(layout);
  }
}

TEST(ExpertLoad, CountsARowOnceHoweverAStepRuns) {
  const Loads one = loads_of({kCapacity});
  const Sets ways[] = {{"recompute.mode=\"full\""},
                       {"graph.type=\"partial\""},
                       {"graph.type=\"partial\"", "check.graphs_every=1"},
                       {"graph.type=\"partial\"", "recompute.mode=\"full\""},
                       {"graph.type=\"full_iteration\""},
                       {"run.log_every_steps=3"},
                       {"parallel.data=2", "optimizer.type=\"distributed\""},
                       {"validation.every_steps=1", "data.validation=0.1"}};
  for (const Sets& way : ways) {
    const Loads loads = loads_of(with(way, {kCapacity}));
    if (way[0].starts_with("validation")) {  // other samples are left for training
      EXPECT_EQ(loads.dropped.size(), 3U);
      EXPECT_EQ(loads, loads_of({"data.validation=0.1", kCapacity}));
      continue;
    }
    EXPECT_EQ(loads, one) << ::testing::PrintToString(way);
  }
}

// All of its experts have equal loads, so there is nothing to tell.
TEST(ExpertLoad, OfExpertsThatChooseIsNotCounted) {
  const Loads none = loads_of({"model.block.mlp.router.type=\"expert_choice\""});
  EXPECT_TRUE(none.imbalance.empty());
  EXPECT_TRUE(none.by_layer.empty());
}

}  // namespace expert_load_test
}  // namespace tessera::testing

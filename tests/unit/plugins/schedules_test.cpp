#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/error.hpp"
#include "tessera/graph.hpp"
#include "tessera/schedule.hpp"
#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera {
namespace schedules_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Sequential, FinishesAMicrobatchBeforeTheNext) {
  ScheduleArguments arguments;
  const auto schedule = make_plugin<PipelineSchedule>("sequential", "", arguments);
  PipelineShape shape;
  shape.microbatches = 2;
  EXPECT_EQ(schedule->chunks(), 1);
  EXPECT_EQ(schedule->live(shape, 0), 1);
  EXPECT_THAT(
      schedule->order(shape),
      ElementsAre(
          Action{Action::F, 0}, Action{Action::B, 0}, Action{Action::F, 1}, Action{Action::B, 1}));
  shape.training = false;
  EXPECT_THAT(schedule->order(shape), ElementsAre(Action{Action::F, 0}, Action{Action::F, 1}));
}

TEST(Sequential, RefusesAPipeline) {
  ScheduleArguments arguments{2};
  EXPECT_THAT(
      text_of<ConfigError>([&] { make_plugin<PipelineSchedule>("sequential", "", arguments); }),
      HasSubstr("needs parallel.pipeline = 1, not 2"));
}

// The default: nothing to choose on one pipeline rank, the least memory on several.
TEST(AutoSchedule, IsSequentialOnOneRankAnd1F1BOnSeveral) {
  for (const int ranks : {1, 3}) {
    ScheduleArguments arguments{ranks};
    const auto automatic = make_plugin<PipelineSchedule>("auto", "", arguments);
    const auto named =
        make_plugin<PipelineSchedule>(ranks == 1 ? "sequential" : "1f1b", "", arguments);
    PipelineShape shape;
    shape.ranks = ranks;
    shape.microbatches = 4;
    for (shape.rank = 0; shape.rank < ranks; ++shape.rank) {
      for (const bool training : {true, false}) {
        shape.training = training;
        EXPECT_EQ(automatic->order(shape), named->order(shape));
        EXPECT_EQ(automatic->live(shape, 0), named->live(shape, 0));
      }
    }
  }
}

TEST(NoGraphs, ChoosesNothing) {
  GraphArguments arguments;
  const auto policy = make_plugin<GraphPolicy>("none", "", arguments);
  const std::vector<PhaseInfo> phases(3);
  EXPECT_TRUE(policy->choose(phases, Plan{}).empty());
}

}  // namespace schedules_test
}  // namespace tessera

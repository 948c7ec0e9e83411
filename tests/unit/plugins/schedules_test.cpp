#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/error.hpp"
#include "tessera/graph.hpp"
#include "tessera/schedule.hpp"
#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera {
namespace {

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

TEST(NoGraphs, ChoosesNothing) {
  GraphArguments arguments;
  const auto policy = make_plugin<GraphPolicy>("none", "", arguments);
  const std::vector<PhaseInfo> phases(3);
  EXPECT_TRUE(policy->choose(phases, Plan{}).empty());
}

}  // namespace
}  // namespace tessera

// The planner says the same in whatever way it finds it out.
#include <gtest/gtest.h>

#include "plan_support.hpp"

namespace tessera::testing {
namespace plan_ways_test {

using namespace plans;

TEST(Planning, IsTheSameWithAnyNumberOfWorkers) {
  const Sets sets = {"parallel.pipeline=2", "parallel.context=2", "schedule.type=\"1f1b\""};
  const Prediction three = predicted(sets, [](PlanArguments& with) { with.workers = 3; });
  EXPECT_EQ(report_json(three), report_json(predicted(sets)));
  EXPECT_THROW(predicted(sets, [](PlanArguments& with) { with.world = 3; }), ConfigError);
}

// A pipeline that is full does the same with each group of microbatches. Where memory comes back to
// the same addresses, too, some stand for all; the plan is the same in any case.
TEST(PlannedMicrobatches, ThatAreAlikeAreLaunchedOnce) {
  const Sets many = {"batch.global=96", "batch.micro=1"};
  int fewer = 0;  // layouts where some stand for all
  for (const Sets& layout :
       {Sets{},
        Sets{"parallel.tensor=2", kRows, kBf16},
        Sets{"parallel.data=2", "parallel.bucket_elements=10000", kDistributed},
        Sets{"parallel.pipeline=2", "schedule.type=\"1f1b\"", "recompute.mode=\"full\""},
        Sets{"parallel.pipeline=4", "parallel.data=2", "schedule.type=\"1f1b\"", kDistributed},
        Sets{"parallel.pipeline=2", "schedule.type=\"interleaved_1f1b\"", "schedule.chunks=2"},
        Sets{"parallel.pipeline=2", "schedule.type=\"zb_h1\""},
        Sets{"parallel.pipeline=2", "schedule.type=\"zbv\""},
        Sets{"parallel.pipeline=2", "schedule.type=\"dualpipe_v\""},
        Sets{"parallel.context=2", "check.on_bad_step=\"skip\""},
        with({"parallel.expert=4", "schedule.overlap=true"}, kPaddedExperts),
        with({"parallel.data=2", "parallel.expert=2"}, kChosen)}) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(layout, " ")));
    const Sets sets = with(many, layout);
    const Prediction some = predicted(sets);
    const Prediction all = predicted(sets, [](PlanArguments& of) { of.every_microbatch = true; });
    EXPECT_EQ(report_json(some), report_json(all));
    EXPECT_EQ(report_text(some), report_text(all));
    fewer += some.classes[0].microbatches < some.microbatches ? 1 : 0;
    for (std::size_t i = 0; i < all.classes.size(); ++i) {
      EXPECT_EQ(all.classes[i].microbatches, all.microbatches);
      EXPECT_EQ(some.classes[i].actions, all.classes[i].actions);
      EXPECT_EQ(some.classes[i].total, all.classes[i].total);
      EXPECT_EQ(some.classes[i].memory.reserved, all.classes[i].memory.reserved);
      EXPECT_EQ(some.classes[i].memory.touched, all.classes[i].memory.touched);
      EXPECT_EQ(some.classes[i].graphs.launches, all.classes[i].graphs.launches);
    }
  }
  EXPECT_GE(fewer, 4) << "as where a microbatch leaves nothing behind";
}

TEST(PlannedTime, IsShorterWithMoreRanksAndLongerWithSlowerLinks) {
  const auto seconds = [](const Sets& sets, double bandwidth) {
    const auto slow = [&](PlanArguments& of) { of.hardware.inside.bandwidth = bandwidth; };
    return predicted(sets, slow).step_seconds;
  };
  EXPECT_LT(seconds({"parallel.data=2"}, 1e12), seconds({}, 1e12));
  EXPECT_GT(seconds({"parallel.tensor=2"}, 1e6), seconds({"parallel.tensor=2"}, 1e12));
}

}  // namespace plan_ways_test
}  // namespace tessera::testing

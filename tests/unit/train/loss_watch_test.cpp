#include "kernel/train/run/loss_watch.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace tessera {
namespace loss_watch_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(LossWatch, WhatIsNotFiniteIsBad) {
  const CheckSection section;
  LossWatch watch(section);
  EXPECT_FALSE(watch.judge(1, 5.0));
  EXPECT_FALSE(watch.judge(2, 500.0)) << "no bound is set";
  for (const double loss : {kNan, std::numeric_limits<double>::infinity()}) {
    const auto bad = watch.judge(3, loss);
    ASSERT_TRUE(bad);
    EXPECT_EQ(bad->step, 3);
    EXPECT_EQ(bad->why, "the loss of step 3 is not finite");
  }
}

TEST(LossWatch, GradientsAreBadIfNoLossScaleExplainsThem) {
  const CheckSection section;
  LossWatch watch(section);
  EXPECT_FALSE(watch.judge(1, 5.0, kScaleTooLarge));
  const auto bad = watch.judge(2, 5.0, kNotExplained);
  ASSERT_TRUE(bad);
  EXPECT_EQ(bad->why, "the gradients of step 2 are not finite");
}

TEST(LossWatch, ARiseIsBadOnceTheMeanIsKnown) {
  CheckSection section;
  section.loss_rise = 2;
  section.loss_window = 3;
  LossWatch watch(section);
  EXPECT_FALSE(watch.judge(1, 1.0));
  EXPECT_FALSE(watch.judge(2, 9.0)) << "too early";
  EXPECT_FALSE(watch.judge(3, 2.0));
  EXPECT_FALSE(watch.judge(4, 8.0)) << "the mean is 4";
  const auto bad = watch.judge(5, 11.0);  // 4 + (8 - 4) / 3 = 5.33
  ASSERT_TRUE(bad);
  EXPECT_THAT(bad->why, HasSubstr("the loss of step 5, 11, is more than check.loss_rise = 2"));
  EXPECT_THAT(bad->why, HasSubstr("5.333"));
  EXPECT_TRUE(watch.judge(6, 11.0)) << "a bad loss does not move the mean";
}

TEST(LossWatch, JudgesAfterACheckpointAsBefore) {
  CheckSection section;
  section.loss_rise = 1.5;
  section.loss_window = 4;
  LossWatch whole(section);
  CheckpointInfo saved;
  saved.step = 6;
  for (i64 step = 1; step <= 6; ++step) whole.judge(step, 7.0 / static_cast<double>(step));
  whole.save_to(saved);
  LossWatch resumed(section);
  resumed.continue_from(saved);
  for (double loss = 1; loss < 4; loss += 0.125) {
    const auto a = whole.judge(7, loss), b = resumed.judge(7, loss);
    ASSERT_EQ(a.has_value(), b.has_value()) << loss;
    if (a) {
      EXPECT_EQ(a->why, b->why);
    }
  }
}

TEST(LossWatch, EachRewindInARowPassesOverOneStepMore) {
  const CheckSection section;
  LossWatch watch(section);
  ASSERT_TRUE(watch.once_more());
  watch.pass_over({57, 9.5, ""}, 50);
  EXPECT_TRUE(watch.passed_over(57));
  EXPECT_FALSE(watch.passed_over(56));
  ASSERT_TRUE(watch.once_more());
  watch.pass_over({58, kNan, ""}, 50);
  EXPECT_TRUE(watch.passed_over(58));
  EXPECT_TRUE(watch.passed_over(56)) << "57 is passed over already";
  ASSERT_TRUE(watch.once_more());
  watch.pass_over({52, kNan, ""}, 50);
  EXPECT_TRUE(watch.passed_over(51));
  EXPECT_FALSE(watch.passed_over(50)) << "the checkpoint holds it";
  EXPECT_FALSE(watch.once_more()) << "check.bad_steps = 3";
  CheckpointInfo info;
  info.step = 57;
  watch.save_to(info);
  EXPECT_THAT(info.passed_over, ElementsAre(51, 52, 56, 57)) << "those up to its step";
}

TEST(LossWatch, AGoodStepAfterTheBadOneProvesTheParameters) {
  const CheckSection section;
  LossWatch watch(section);
  EXPECT_TRUE(watch.proven());
  ASSERT_TRUE(watch.judge(14, kNan));
  watch.pass_over({14, kNan, ""}, 12);
  EXPECT_FALSE(watch.judge(13, 2.5));
  EXPECT_FALSE(watch.proven()) << "the update of step 13 may be what broke 14";
  EXPECT_FALSE(watch.judge(15, 2.5));
  EXPECT_TRUE(watch.proven());
}

// The calls follow the order of a run: a step is judged before a checkpoint of it is saved.
TEST(LossWatch, ACheckpointIsDoubtedWhenTwoBatchesAreBadWithItsParameters) {
  CheckSection section;
  section.on_bad_step = "rewind";
  LossWatch watch(section);
  ASSERT_FALSE(watch.judge(6, 2.0));
  watch.copied();
  watch.saved();
  const auto first = watch.judge(7, kNan);
  ASSERT_TRUE(first);
  EXPECT_FALSE(watch.doubts(6)) << "the batch of step 7 may be bad";
  ASSERT_TRUE(watch.once_more());
  watch.pass_over(*first, 6);
  ASSERT_TRUE(watch.judge(8, kNan));
  EXPECT_TRUE(watch.doubts(6));
  EXPECT_FALSE(watch.tried());
  watch.gave_up_newest();
  EXPECT_FALSE(watch.doubts(4)) << "step 5 tried it";
}

TEST(LossWatch, ARowEndsWithAGoodStepAfterANewCheckpoint) {
  CheckSection section;
  section.on_bad_step = "rewind";
  LossWatch watch(section);
  const auto bad = [&](i64 step) {
    const auto found = watch.judge(step, kNan);
    watch.once_more();
    watch.pass_over(found.value(), 6);
  };
  ASSERT_FALSE(watch.judge(6, 2.0));
  watch.copied();
  watch.saved();
  ASSERT_FALSE(watch.judge(7, 2.0));
  bad(8);
  ASSERT_FALSE(watch.judge(7, 2.0));
  bad(9);
  EXPECT_EQ(watch.in_a_row(), 2) << "the parameters of step 6 were tried before";
  EXPECT_FALSE(watch.doubts(6));
  ASSERT_FALSE(watch.judge(10, 2.0));
  watch.copied();
  watch.saved();
  EXPECT_EQ(watch.in_a_row(), 2) << "no step has tried those of step 10";
  ASSERT_FALSE(watch.judge(11, 2.0));
  EXPECT_EQ(watch.in_a_row(), 0);
}

TEST(LossWatch, WhereBadStepsAreLeftOutAnyGoodOneEndsARow) {
  CheckSection section;
  section.on_bad_step = "skip";
  LossWatch watch(section);
  ASSERT_FALSE(watch.judge(1, 2.0));
  ASSERT_TRUE(watch.judge(2, kNan));
  watch.once_more();
  EXPECT_FALSE(watch.proven()) << "the update of step 1 may be what broke 2";
  ASSERT_FALSE(watch.judge(3, 2.0));
  EXPECT_TRUE(watch.proven());
  EXPECT_EQ(watch.in_a_row(), 0);
}

}  // namespace loss_watch_test
}  // namespace tessera

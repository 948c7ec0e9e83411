// Each kind of broken plan is rejected at its first offending action.
#include "kernel/schedule/verify.hpp"

#include <gmock/gmock.h>

#include <algorithm>

#include "kernel/schedule/lower.hpp"
#include "schedule_support.hpp"
#include "tessera/error.hpp"
#include "tests/common/error_of.hpp"

namespace tessera::testing {
namespace verify_test {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::string problem(const Plan& plan) {
  return error_of([&] { verify(plan); });
}

Plan lowered(std::vector<Action> order, int microbatches, int live = 1) {
  return lower(GivenSchedule({std::move(order)}, live),
               one_stage(microbatches),
               four_phases(),
               {{{2, 1}, {0}}});
}

// F0 … F3 = actions 0-3, B 4-6, Reduce 7, B 8, Reduce 9, Step 10.
Plan one_microbatch() { return lowered({{Action::F, 0}, {Action::B, 0}}, 1); }

TEST(Verify, NamesTheActionInFull) {
  Plan plan = one_microbatch();
  std::swap(plan.actions[1], plan.actions[2]);
  plan.actions[1].after.clear();
  EXPECT_EQ(problem(plan),
            "the plan of pipeline rank 0 is not valid: action 1 (F mb0 chunk0 layer1 mlp) "
            "runs its phase out of order or a second time");
}

TEST(Verify, Forward) {
  Plan twice = one_microbatch();
  twice.actions.insert(twice.actions.begin() + 4, twice.actions[3]);
  twice.actions[4].after.clear();
  EXPECT_THAT(problem(twice), HasSubstr("action 4 (F mb0"));
  Plan missing = lowered({{Action::F, 0}, {Action::B, 0}}, 1);
  missing.shape.microbatches = 2;
  EXPECT_EQ(problem(missing),
            "the plan of pipeline rank 0 is not valid: microbatch 1 of chunk 0 is missing its "
            "forward pass");
}

TEST(Verify, Backward) {
  EXPECT_THAT(problem(lowered({{Action::B, 0}, {Action::F, 0}}, 1)),
              HasSubstr("action 0 (B mb0 chunk0 layer2 head) runs backward before "
                        "its forward is done"));
  EXPECT_THAT(
      problem(lowered({{Action::F, 0}, {Action::B, 0}, {Action::B, 0}}, 1)),
      ::testing::AnyOf(HasSubstr("out of order or a second time"), HasSubstr("reduced before")));
  Plan missing = lower(GivenSchedule({{{Action::F, 0}}}), one_stage(1), four_phases(), {});
  EXPECT_THAT(problem(missing), HasSubstr("missing its backward pass"));
  Plan unordered = one_microbatch();
  std::swap(unordered.actions[4], unordered.actions[5]);
  for (PlanAction& action : unordered.actions) action.after.clear();
  EXPECT_THAT(problem(unordered), HasSubstr("action 4 (B mb0 chunk0 layer1 mlp"));
}

TEST(Verify, WeightHalves) {
  EXPECT_THAT(problem(lowered({{Action::F, 0}, {Action::Bw, 0}, {Action::Bi, 0}}, 1)),
              HasSubstr("runs the weight half before the input half"));
  const auto twice =
      lower(GivenSchedule({{{Action::F, 0}, {Action::Bi, 0}, {Action::Bw, 0}, {Action::Bw, 0}}}),
            one_stage(1),
            four_phases(),
            {});
  EXPECT_THAT(problem(twice), HasSubstr("runs its weight half a second time"));
  const auto none =
      lower(GivenSchedule({{{Action::F, 0}, {Action::Bi, 0}}}), one_stage(1), four_phases(), {});
  EXPECT_THAT(problem(none), HasSubstr("missing its backward pass"));
}

TEST(Verify, LiveMicrobatches) {
  const std::vector<Action> order = {
      {Action::F, 0}, {Action::F, 1}, {Action::B, 0}, {Action::B, 1}};
  EXPECT_EQ(problem(lowered(order, 2, 2)), "");
  EXPECT_THAT(problem(lowered(order, 2, 1)),
              HasSubstr("action 4 (F mb1 chunk0 layer0 embedding) makes more "
                        "microbatches live than the schedule declares"));
  // What the weight half reads stays live.
  const std::vector<Action> halves = {{Action::F, 0},
                                      {Action::Bi, 0},
                                      {Action::F, 1},
                                      {Action::Bw, 0},
                                      {Action::Bi, 1},
                                      {Action::Bw, 1}};
  EXPECT_EQ(problem(lowered(halves, 2, 2)), "");
  EXPECT_THAT(problem(lowered(halves, 2, 1)), HasSubstr("more microbatches live"));
}

TEST(Verify, ForwardOnlyKeepsNothingLive) {
  const Plan plan = lower(GivenSchedule({{{Action::F, 0}, {Action::F, 1}, {Action::F, 2}}}),
                          one_stage(3, false),
                          four_phases(),
                          {});
  EXPECT_EQ(problem(plan), "");
}

TEST(Verify, Gathers) {
  const auto made = [] {
    const GivenSchedule schedule({{{Action::F, 0}, {Action::B, 0}}});
    return lower(schedule, one_stage(1), four_phases(), {{{2, 1}, {0}}, true});
  };
  ASSERT_EQ(problem(made()), "");
  ASSERT_EQ(made().actions[1].kind, PlanAction::Gather);  // of bucket 0; the block's F is action 3
  Plan unwaited = made();
  unwaited.actions[3].after = {2};
  EXPECT_THAT(problem(unwaited),
              HasSubstr("action 3 (F mb0 chunk0 layer1 attn) does not wait for the parameters"));
  Plan twice = made();
  twice.actions[1].bucket = 1;
  EXPECT_THAT(problem(twice), HasSubstr("gathers its bucket a second time"));
  Plan late = made();
  const auto begin = late.actions.begin();
  std::rotate(begin + 1, begin + 2, begin + 4);  // after the block's first phase
  for (PlanAction& action : late.actions) action.after.clear();
  late.actions[1].after = {0};
  EXPECT_THAT(problem(late),
              HasSubstr("action 2 (F mb0 chunk0 layer1 attn) reads parameters that"));
  Plan none = made();
  none.gathers = false;
  EXPECT_THAT(problem(none), HasSubstr("where ranks update all of their parameters"));
  Plan other = made();
  other.actions[1].bucket = 7;
  EXPECT_THAT(problem(other), HasSubstr("is for a bucket that does not exist"));
}

TEST(Verify, Prepares) {
  const auto made = [](bool gathered) {
    const GivenSchedule schedule({{{Action::F, 0}, {Action::B, 0}}});
    const BucketUse buckets{{{2, 1}, {0}}, gathered, {}, {true, false}};
    return lower(schedule, one_stage(1), four_phases(), buckets);
  };
  ASSERT_EQ(problem(made(false)), "");
  ASSERT_EQ(made(false).actions[1].kind, PlanAction::Prepare);  // the block's F is action 2
  Plan unwaited = made(false);
  unwaited.actions[2].after = {0};
  EXPECT_THAT(problem(unwaited),
              HasSubstr("action 2 (F mb0 chunk0 layer1 attn) does not wait for the weights"));
  Plan late = made(false);
  std::swap(late.actions[1], late.actions[2]);
  for (PlanAction& action : late.actions) action.after.clear();
  EXPECT_THAT(problem(late),
              HasSubstr("action 1 (F mb0 chunk0 layer1 attn) reads weights that are not prepared"));
  Plan twice = made(false);
  twice.actions.insert(twice.actions.begin() + 1, twice.actions[1]);
  for (PlanAction& action : twice.actions) action.after.clear();
  EXPECT_THAT(problem(twice), HasSubstr("prepares its bucket a second time"));
  Plan other = made(false);
  other.actions[1].bucket = 1;
  EXPECT_THAT(problem(other), HasSubstr("is for a bucket without weights to prepare"));
  Plan early = made(true);
  ASSERT_EQ(problem(early), "");
  ASSERT_EQ(early.actions[3].kind, PlanAction::Prepare);
  early.actions[3].after.clear();
  EXPECT_THAT(problem(early),
              HasSubstr("action 3 (Prepare bucket0) does not wait for the parameters"));
}

TEST(Verify, Reductions) {
  ASSERT_EQ(problem(one_microbatch()), "");
  Plan twice = one_microbatch();
  twice.actions[9].bucket = 0;
  EXPECT_THAT(problem(twice),
              HasSubstr("action 9 (Reduce bucket0) reduces its "
                        "bucket a second time"));
  Plan early = lowered({{Action::F, 0}, {Action::B, 0}, {Action::F, 1}, {Action::B, 1}}, 2);
  PlanAction reduce = early.actions[15];
  ASSERT_EQ(reduce.kind, PlanAction::Reduce);
  early.actions.erase(early.actions.begin() + 15);
  reduce.after = {6};  // the block's backward of the first microbatch
  early.actions.insert(early.actions.begin() + 7, reduce);
  for (std::size_t i = 8; i < early.actions.size(); ++i) early.actions[i].after.clear();
  EXPECT_THAT(problem(early),
              HasSubstr("action 13 (B mb1 chunk0 layer2 head) adds to gradients "
                        "that were reduced before"));
  Plan missing = one_microbatch();
  missing.bucket_layers.push_back({0});
  EXPECT_EQ(problem(missing),
            "the plan of pipeline rank 0 is not valid: it does not reduce gradient bucket 2");
  missing.actions[7].bucket = 5;
  EXPECT_THAT(problem(missing),
              HasSubstr("action 7 (Reduce bucket5) is for a bucket that does not exist"));
  Plan unwaited = one_microbatch();
  unwaited.actions[10].after = {7};
  EXPECT_THAT(problem(unwaited), HasSubstr("does not wait for a reduction"));
  Plan alone = one_microbatch();
  alone.actions[7].after.clear();
  EXPECT_THAT(problem(alone), HasSubstr("does not wait for its last gradient"));
}

TEST(Verify, DependenciesAndTheStep) {
  Plan later = one_microbatch();
  later.actions[2].after = {3};
  EXPECT_THAT(problem(later),
              HasSubstr("action 2 (F mb0 chunk0 layer1 mlp) waits "
                        "for a later action"));
  Plan none = one_microbatch();
  none.actions.pop_back();
  EXPECT_EQ(problem(none), "the plan of pipeline rank 0 is not valid: it has no step");
  Plan two = one_microbatch();
  two.actions.push_back(two.actions.back());
  EXPECT_THAT(problem(two),
              HasSubstr("action 11 (Step) "
                        "comes after the step"));
}

TEST(Verify, PlacesThatDoNotExist) {
  Plan chunk = one_microbatch();
  chunk.actions[0].chunk = 3;
  EXPECT_THAT(problem(chunk), HasSubstr("action 0 (F mb0 chunk3"));
  Plan phase = one_microbatch();
  phase.actions[0].phase = 9;
  EXPECT_THAT(problem(phase), HasSubstr("is for a phase of another chunk"));
  Plan kind = one_microbatch();
  kind.actions[0].kind = PlanAction::Exchange;
  EXPECT_THAT(problem(kind), HasSubstr("has no place on the only pipeline rank"));
  kind.actions[0].kind = PlanAction::Gather;
  EXPECT_THAT(problem(kind), HasSubstr("has no place where ranks update all of their parameters"));
  kind.actions[0].kind = PlanAction::Prepare;
  EXPECT_THAT(problem(kind), HasSubstr("is for a bucket without weights to prepare"));
}

}  // namespace verify_test
}  // namespace tessera::testing

#include "kernel/schedule/lower.hpp"

#include <gmock/gmock.h>

#include "kernel/schedule/verify.hpp"
#include "schedule_support.hpp"
#include "tessera/error.hpp"

namespace tessera::testing {
namespace lower_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const std::vector<Action> kTwo = {{Action::F, 0}, {Action::B, 0}, {Action::F, 1}, {Action::B, 1}};

TEST(Lower, ListsPhasesForwardAndBackwardWithReductionsAndAStep) {
  // Bucket 0: the head and the block; bucket 1: the embedding.
  const Plan plan = lower(GivenSchedule({kTwo}), one_stage(2), four_phases(), {{{2, 1}, {0}}});
  EXPECT_EQ(plan.text(),
            "F mb0 chunk0 layer0 embedding\n"
            "F mb0 chunk0 layer1 attn\n"
            "F mb0 chunk0 layer1 mlp\n"
            "F mb0 chunk0 layer2 head\n"
            "B mb0 chunk0 layer2 head\n"
            "B mb0 chunk0 layer1 mlp\n"
            "B mb0 chunk0 layer1 attn\n"
            "B mb0 chunk0 layer0 embedding\n"
            "F mb1 chunk0 layer0 embedding\n"
            "F mb1 chunk0 layer1 attn\n"
            "F mb1 chunk0 layer1 mlp\n"
            "F mb1 chunk0 layer2 head\n"
            "B mb1 chunk0 layer2 head\n"
            "B mb1 chunk0 layer1 mlp\n"
            "B mb1 chunk0 layer1 attn\n"
            "Reduce bucket0\n"
            "B mb1 chunk0 layer0 embedding\n"
            "Reduce bucket1\n"
            "Step\n");
  EXPECT_THAT(plan.actions[15].after, ElementsAre(12, 14)) << "one for each layer";
  EXPECT_THAT(plan.actions[16].after, ElementsAre(11, 14)) << "its forward, the phase behind it";
  EXPECT_THAT(plan.actions[18].after, ElementsAre(15, 17));
  verify(plan);
}

TEST(Lower, ATensorSharedByFirstAndLastLayerIsReducedAtTheEnd) {
  const Plan plan = lower(GivenSchedule({kTwo}), one_stage(2), four_phases(), {{{2, 0}, {1}}});
  EXPECT_THAT(plan.text(),
              HasSubstr("layer1 attn\nReduce bucket1\nB mb1 chunk0 layer0 embedding\n"
                        "Reduce bucket0\nStep\n"));
  verify(plan);
}

// Bucket 1 is read first, and at once; bucket 0 comes while the embedding runs.
TEST(Lower, GathersABucketBeforeTheOneBeforeItIsRead) {
  const BucketUse buckets{{{2}, {0}, {1}}, true};
  const GivenSchedule schedule({{{Action::F, 0}, {Action::B, 0}}});
  const Plan plan = lower(schedule, one_stage(1), four_phases(), buckets);
  verify(plan);
  EXPECT_THAT(plan.text(),
              ::testing::StartsWith("Gather bucket1\n"
                                    "Gather bucket2\n"
                                    "F mb0 chunk0 layer0 embedding\n"
                                    "Gather bucket0\n"
                                    "F mb0 chunk0 layer1 attn\n"
                                    "F mb0 chunk0 layer1 mlp\n"
                                    "F mb0 chunk0 layer2 head\n"
                                    "B mb0 chunk0 layer2 head\n"
                                    "Reduce bucket0\n"));
  EXPECT_THAT(plan.actions[2].after, ElementsAre(0));
  EXPECT_THAT(plan.actions[4].after, ElementsAre(2, 1));
  EXPECT_THAT(plan.actions[6].after, ElementsAre(5, 3));
  EXPECT_THAT(plan.actions[7].after, ElementsAre(6)) << "its backward waits for it no more";
}

// Bucket 0 has nothing to prepare. Packing comes after the gather, at the last moment.
TEST(Lower, PreparesABucketRightBeforeItIsRead) {
  const BucketUse buckets{{{2}, {0}, {1}}, true, {}, {false, true, true}};
  const GivenSchedule schedule({{{Action::F, 0}, {Action::B, 0}}});
  const Plan plan = lower(schedule, one_stage(1), four_phases(), buckets);
  verify(plan);
  EXPECT_THAT(plan.text(),
              ::testing::StartsWith("Gather bucket1\n"
                                    "Gather bucket2\n"
                                    "Prepare bucket1\n"
                                    "F mb0 chunk0 layer0 embedding\n"
                                    "Gather bucket0\n"
                                    "Prepare bucket2\n"
                                    "F mb0 chunk0 layer1 attn\n"
                                    "F mb0 chunk0 layer1 mlp\n"
                                    "F mb0 chunk0 layer2 head\n"));
  EXPECT_THAT(plan.actions[2].after, ElementsAre(0));
  EXPECT_THAT(plan.actions[3].after, ElementsAre(0, 2));
  EXPECT_THAT(plan.actions[5].after, ElementsAre(1));
  EXPECT_THAT(plan.actions[6].after, ElementsAre(3, 1, 5));
}

// A graph reads the weights of all its phases with the first of them.
TEST(Lower, PreparesWhatAGraphReadsBeforeTheGraph) {
  std::vector<PhaseInfo> phases = four_phases();
  for (std::size_t i = 1; i < phases.size(); ++i) phases[i].graph = 0;
  const BucketUse buckets{{{2}, {0, 1}}, false, {}, {true, false}};
  const Plan plan = lower(GivenSchedule({kTwo}), one_stage(2), phases, buckets);
  verify(plan);
  EXPECT_THAT(plan.text(),
              ::testing::StartsWith("F mb0 chunk0 layer0 embedding\n"
                                    "Prepare bucket0\n"
                                    "F mb0 chunk0 layer1 attn\n"));
  EXPECT_THAT(plan.text(), ::testing::Not(HasSubstr("Prepare bucket0\nF mb1"))) << "once a step";
}

TEST(Lower, NamesTheGroupOfEachBucket) {
  const BucketUse buckets{{{1}, {2, 0}}, false, {"edp", "dp-cp"}};
  const Plan plan = lower(GivenSchedule({kTwo}), one_stage(2), four_phases(), buckets);
  EXPECT_THAT(plan.text(), HasSubstr("Reduce bucket0 over edp\n"));
  EXPECT_THAT(plan.text(), HasSubstr("Reduce bucket1 over dp-cp\n"));
}

TEST(Lower, SplitHalvesAreReducedBehindTheWeightHalf) {
  const GivenSchedule schedule({{{Action::F, 0}, {Action::Bi, 0}, {Action::Bw, 0}}});
  const Plan plan = lower(schedule, one_stage(1), four_phases(), {{{0, 1, 2}}});
  verify(plan);
  EXPECT_THAT(plan.text(), HasSubstr("Bi mb0 chunk0 layer0 embedding\nBw mb0 chunk0 layer2 head"));
  EXPECT_THAT(plan.text(), HasSubstr("Bw mb0 chunk0 layer0 embedding\nReduce bucket0\nStep\n"));
  EXPECT_THAT(plan.actions[8].after, ElementsAre(4)) << "a weight half waits for its input half";
}

TEST(Lower, ForwardOnlyPlansHaveNoStep) {
  const GivenSchedule schedule({{{Action::F, 0}, {Action::F, 1}, {Action::F, 2}}});
  const Plan plan = lower(schedule, one_stage(3, false), four_phases(), {{{0, 1, 2}}});
  EXPECT_EQ(plan.actions.size(), 12U);
  verify(plan);
}

TEST(Lower, RefusesWhatDoesNotExist) {
  const auto run = [](std::vector<Action> order) {
    lower(GivenSchedule({std::move(order)}), one_stage(1), four_phases(), {});
  };
  EXPECT_THAT(
      [&] {
        run({{Action::F, 1}});
      },
      ThrowsMessage<Error>("the schedule lists microbatch 1 of chunk 0: there are 1 "
                           "microbatches and 1 chunks"));
  EXPECT_THAT([&] { run({{Action::F, 0, 2}}); }, ThrowsMessage<Error>(HasSubstr("chunk 2")));
  EXPECT_THAT([] { lower(GivenSchedule({kTwo}), one_stage(2), four_phases(), {{{7}}}); },
              ThrowsMessage<Error>("no backward action completes gradient bucket 0"));
}

}  // namespace lower_test
}  // namespace tessera::testing

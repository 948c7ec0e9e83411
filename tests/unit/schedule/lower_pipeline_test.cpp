// Lowering on several ranks: what crosses between them, and ranges computed again.
#include <gmock/gmock.h>

#include "kernel/schedule/lower.hpp"
#include "kernel/schedule/verify.hpp"
#include "schedule_support.hpp"
#include "tessera/error.hpp"

namespace tessera::testing {
namespace lower_pipeline_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

using enum Action::Kind;

PipelineShape shape_of(int ranks, int microbatches, int chunks = 1, bool training = true) {
  PipelineShape shape;
  shape.ranks = ranks;
  shape.microbatches = microbatches;
  shape.chunks = chunks;
  shape.training = training;
  return shape;
}

// Chunk 1 of rank 0 behind chunk 1 of rank 1, as in schedules of V form.
class GivenV final : public PipelineSchedule {
 public:
  explicit GivenV(std::vector<std::vector<Action>> by_rank) : by_rank_(std::move(by_rank)) {}
  int do_chunks() const override { return 2; }
  Place do_place(const PipelineShape& shape, int rank, int chunk) const override {
    return {chunk == 0 ? rank : 2 * shape.ranks - 1 - rank};
  }
  std::vector<Action> do_order(const PipelineShape& shape) const override {
    return by_rank_.at(static_cast<std::size_t>(shape.rank));
  }

 private:
  std::vector<std::vector<Action>> by_rank_;
};

TEST(LowerPipeline, OneForwardOneBackward) {
  const GivenSchedule schedule({{{F, 0}, {F, 1}, {B, 0}, {B, 1}}, {{F, 0}, {B, 0}, {F, 1}, {B, 1}}},
                               2);
  const std::vector<Plan> plans = lower_all(schedule, shape_of(2, 2));
  EXPECT_EQ(plans[0].text(),
            "F mb0 chunk0 layer0 attn\n"
            "F mb0 chunk0 layer0 mlp\n"
            "Exchange send F mb0 stage0 to rank 1\n"
            "F mb1 chunk0 layer0 attn\n"
            "F mb1 chunk0 layer0 mlp\n"
            "Exchange send F mb1 stage0 to rank 1\n"
            "Exchange receive B mb0 stage1 from rank 1\n"
            "Exchange receive B mb1 stage1 from rank 1\n"
            "B mb0 chunk0 layer0 mlp\n"
            "B mb0 chunk0 layer0 attn\n"
            "B mb1 chunk0 layer0 mlp\n"
            "B mb1 chunk0 layer0 attn\n"
            "Reduce bucket0\n"
            "Step\n");
  EXPECT_EQ(plans[1].text(),
            "Exchange receive F mb0 stage0 from rank 0\n"
            "Exchange receive F mb1 stage0 from rank 0\n"
            "F mb0 chunk0 layer0 attn\n"
            "F mb0 chunk0 layer0 mlp\n"
            "B mb0 chunk0 layer0 mlp\n"
            "B mb0 chunk0 layer0 attn\n"
            "Exchange send B mb0 stage1 to rank 0\n"
            "F mb1 chunk0 layer0 attn\n"
            "F mb1 chunk0 layer0 mlp\n"
            "B mb1 chunk0 layer0 mlp\n"
            "B mb1 chunk0 layer0 attn\n"
            "Exchange send B mb1 stage1 to rank 0\n"
            "Reduce bucket0\n"
            "Step\n")
      << "the gradients leave before the reduction starts";
  EXPECT_THAT(plans[0].actions[2].after, ElementsAre(1)) << "a send waits for its producer";
  EXPECT_THAT(plans[0].actions[8].after, ElementsAre(1, 6)) << "its forward, what it reads";
  EXPECT_THAT(plans[0].actions[13].after, ElementsAre(12));
  EXPECT_THAT(plans[0].actions[8].released, ElementsAre(2))
      << "the gradient that it reads was made of what exchange 2 sends";
  EXPECT_THAT(plans[0].actions[10].released, ElementsAre(5));
  EXPECT_THAT(plans[1].actions[13].released, ElementsAre(6, 11)) << "nothing comes back";
  EXPECT_THAT(plans[1].actions[2].after, ElementsAre(0));
  EXPECT_THAT(plans[1].actions[3].after, ElementsAre(2));
  EXPECT_THAT(plans[1].actions[6].after, ElementsAre(5));
  EXPECT_THAT(plans[1].actions[7].after, ElementsAre(1));
  for (const Plan& plan : plans) verify(plan);
}

TEST(LowerPipeline, MessagesOfOneTimeShareAnExchange) {
  // Both ends finish at time 7: rank 0 its third forward, rank 1 its second backward.
  const GivenSchedule schedule({{{F, 0}, {F, 1}, {B, 0}, {F, 2}, {B, 1}, {B, 2}},
                                {{F, 0}, {B, 0}, {F, 1}, {B, 1}, {F, 2}, {B, 2}}},
                               2);
  const std::vector<Plan> plans = lower_all(schedule, shape_of(2, 3));
  EXPECT_THAT(plans[0].text(),
              HasSubstr("F mb2 chunk0 layer0 mlp\n"
                        "Exchange send F mb2 stage0 to rank 1 receive B mb1 stage1 from rank 1\n"
                        "Exchange receive B mb2"));
  EXPECT_THAT(plans[1].text(),
              HasSubstr("B mb1 chunk0 layer0 attn\n"
                        "Exchange send B mb1 stage1 to rank 0 receive F mb2 stage0 from rank 0\n"
                        "F mb2 chunk0"));
}

TEST(LowerPipeline, NeighboursOnOneRankNeedNoExchange) {
  const GivenV schedule({{{F, 0, 0}, {F, 0, 1}, {Bi, 0, 1}, {Bw, 0, 1}, {B, 0, 0}},
                         {{F, 0, 0}, {F, 0, 1}, {B, 0, 1}, {Bi, 0, 0}, {Bw, 0, 0}}});
  const std::vector<Plan> plans = lower_all(schedule, shape_of(2, 1, 2));
  EXPECT_EQ(plans[1].stages, (std::vector<int>{1, 2}));
  EXPECT_EQ(plans[1].text(),
            "Exchange receive F mb0 stage0 from rank 0\n"
            "F mb0 chunk0 layer0 attn\n"
            "F mb0 chunk0 layer0 mlp\n"
            "F mb0 chunk1 layer1 attn\n"
            "F mb0 chunk1 layer1 mlp\n"
            "Exchange send F mb0 stage2 to rank 0\n"
            "Exchange receive B mb0 stage3 from rank 0\n"
            "B mb0 chunk1 layer1 mlp\n"
            "B mb0 chunk1 layer1 attn\n"
            "Reduce bucket0\n"
            "Bi mb0 chunk0 layer0 mlp\n"
            "Bi mb0 chunk0 layer0 attn\n"
            "Exchange send B mb0 stage1 to rank 0\n"
            "Bw mb0 chunk0 layer0 mlp\n"
            "Bw mb0 chunk0 layer0 attn\n"
            "Reduce bucket1\n"
            "Step\n");
  EXPECT_THAT(plans[1].actions[3].after, ElementsAre(2)) << "the turn of the V, forward";
  EXPECT_THAT(plans[1].actions[10].after, ElementsAre(2, 8)) << "and backward";
  EXPECT_THAT(plans[0].text(), HasSubstr("layer0 attn\nReduce bucket1\nStep"));
  for (const Plan& plan : plans) verify(plan);
}

TEST(LowerPipeline, ForwardOnlyPlansHaveForwardsAndExchanges) {
  const GivenSchedule schedule({{{F, 0}, {F, 1}}, {{F, 0}, {F, 1}}});
  const std::vector<Plan> plans = lower_all(schedule, shape_of(2, 2, 1, false));
  EXPECT_EQ(plans[1].text(),
            "Exchange receive F mb0 stage0 from rank 0\n"
            "Exchange receive F mb1 stage0 from rank 0\n"
            "F mb0 chunk0 layer0 attn\n"
            "F mb0 chunk0 layer0 mlp\n"
            "F mb1 chunk0 layer0 attn\n"
            "F mb1 chunk0 layer0 mlp\n");
  for (const Plan& plan : plans) verify(plan);
}

TEST(LowerPipeline, ForwardOnlyRanksKeepWhatTheySentForThreeMessages) {
  const std::vector<Action> order = {{F, 0}, {F, 1}, {F, 2}, {F, 3}, {F, 4}};
  const std::vector<Plan> plans =
      lower_all(GivenSchedule({order, order}), shape_of(2, 5, 1, false));
  std::vector<std::string> released;
  for (const PlanAction& action : plans[0].actions) {
    for (const int exchange : action.released) {
      released.push_back(
          plans[0].text(plans[0].actions[static_cast<std::size_t>(exchange)]).substr(0, 19) +
          " before " + plans[0].text(action));
    }
  }
  EXPECT_THAT(released,
              ElementsAre("Exchange send F mb0 before F mb3 chunk0 layer0 attn",
                          "Exchange send F mb1 before F mb4 chunk0 layer0 attn"));
  verify(plans);
}

TEST(LowerPipeline, RangesAreComputedAgainBeforeTheirBackward) {
  std::vector<PhaseInfo> phases = four_phases();
  phases[1].recompute = phases[2].recompute = phases[3].recompute = true;
  const GivenSchedule schedule({{{F, 0}, {Bi, 0}, {Bw, 0}}});
  const Plan plan = lower(schedule, one_stage(1), phases, {{{0, 1, 2}}});
  EXPECT_THAT(plan.text(),
              HasSubstr("F mb0 chunk0 layer2 head\n"
                        "Recompute mb0 chunk0 layer2 head\n"
                        "Bi mb0 chunk0 layer2 head\n"
                        "Recompute mb0 chunk0 layer1 attn\n"
                        "Recompute mb0 chunk0 layer1 mlp\n"
                        "Bi mb0 chunk0 layer1 mlp\n"
                        "Bi mb0 chunk0 layer1 attn\n"
                        "Bi mb0 chunk0 layer0 embedding\n"
                        "Bw mb0 chunk0 layer2 head\n"));
  EXPECT_THAT(plan.actions[7].after, ElementsAre(2, 6)) << "its forward, the phase before it";
  EXPECT_THAT(plan.actions[8].after, ElementsAre(3, 5, 7));
  verify(plan);
}

TEST(LowerPipeline, RefusesWhatCannotRun) {
  const auto run = [](std::vector<std::vector<Action>> orders, int microbatches = 1) {
    lower_all(GivenSchedule(std::move(orders)), shape_of(2, microbatches));
  };
  EXPECT_THAT(
      [&] {
        run({{{F, 0}, {B, 0}, {F, 1}, {B, 1}}, {{F, 1}, {F, 0}, {B, 0}, {B, 1}}}, 2);
      },
      ThrowsMessage<Error>(
          "the schedule deadlocks: pipeline rank 0 stops at action 1 (B mb0 chunk0): it "
          "waits for the backward of microbatch 0 on stage 1, which never comes"));
  // Rank 0 is the first that stops in these two, and not the one to blame.
  EXPECT_THAT(
      [&] {
        run({{{F, 0}, {B, 0}}, {{B, 0}, {F, 0}}});
      },
      ThrowsMessage<Error>("the schedule of pipeline rank 1 is out of order: action 0 (B mb0 "
                           "chunk0) needs F mb0 chunk0, which is action 1"));
  EXPECT_THAT(
      [&] {
        run({{{F, 0}, {B, 0}}, {{F, 0}}});
      },
      ThrowsMessage<Error>("the schedule of pipeline rank 1 never lists the backward of "
                           "microbatch 0 of chunk 0; pipeline rank 0 needs it for action 1 (B mb0 "
                           "chunk0)"));
  EXPECT_THAT(
      [&] {
        run({{{F, 0}, {B, 0}}, {{F, 0}, {static_cast<Action::Kind>(9), 0}}});
      },
      ThrowsMessage<Error>("the schedule of pipeline rank 1 lists an action of kind 9: kinds are 0 "
                           "to 3"));
  EXPECT_THAT(
      [&] {
        run({{{F, 0}, {F, 0}, {B, 0}}, {{F, 0}, {B, 0}}});
      },
      ThrowsMessage<Error>("the schedule of pipeline rank 0 lists F mb0 chunk0 twice"));
  EXPECT_THAT(
      [&] {
        lower(GivenSchedule({{{F, 0}}, {{F, 0}}}), shape_of(2, 1, 1, false), {}, {});
      },
      ThrowsMessage<Error>(HasSubstr("chunk 0 of pipeline rank 0 has no layers")));
  class Overlapping final : public PipelineSchedule {
    Place do_place(const PipelineShape&, int, int) const override { return {1}; }
    std::vector<Action> do_order(const PipelineShape&) const override { return {}; }
  };
  class Broken final : public PipelineSchedule {
    std::vector<Action> do_order(const PipelineShape& shape) const override {
      if (shape.rank == 1) throw std::out_of_range("no such entry");
      return {};
    }
  };
  EXPECT_THAT([] { lower_all(Broken(), shape_of(2, 1)); },
              ThrowsMessage<Error>("the schedule fails for pipeline rank 1: no such entry"));
  class Nothing final : public PipelineSchedule {
    int do_chunks() const override { return -1; }
    std::vector<Action> do_order(const PipelineShape&) const override { return {}; }
  };
  EXPECT_THAT([] { tessera::shape_of(Nothing(), 2, 1, true); },
              ThrowsMessage<Error>("the schedule has -1 chunks a rank: at least 1"));
  EXPECT_THAT([] { lower_all(Overlapping(), shape_of(2, 1)); },
              ThrowsMessage<Error>("the schedule puts chunk 0 of pipeline rank 1 at stage 1: "
                                   "another chunk is there"));
}

}  // namespace lower_pipeline_test
}  // namespace tessera::testing

// Times of orders and of lowered plans against ones worked out by hand.
#include "kernel/schedule/timeline.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "kernel/schedule/draw.hpp"
#include "schedule_support.hpp"
#include "tessera/error.hpp"

namespace tessera::testing {
namespace timeline_test {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using enum Action::Kind;

constexpr PlayedTimes kUnits{"units", "given times"};

const GivenSchedule& two_ranks() {
  static const GivenSchedule kSchedule(
      {{{F, 0}, {F, 1}, {B, 0}, {B, 1}}, {{F, 0}, {B, 0}, {F, 1}, {B, 1}}}, 2);
  return kSchedule;
}

PipelineShape shape_of(int ranks, int microbatches) {
  PipelineShape shape;
  shape.ranks = ranks;
  shape.microbatches = microbatches;
  return shape;
}

std::vector<double> starts(const std::vector<Timeline::Block>& blocks) {
  std::vector<double> out;
  for (const Timeline::Block& block : blocks) out.push_back(block.span.start);
  return out;
}

TEST(Timeline, OfOrders) {
  const Timeline timeline = play(orders_of(two_ranks(), shape_of(2, 2)));
  EXPECT_THAT(starts(timeline.blocks[0]), ElementsAre(0, 1, 4, 7));
  EXPECT_THAT(starts(timeline.blocks[1]), ElementsAre(1, 2, 4, 5));
  EXPECT_EQ(timeline.makespan, 9);
  EXPECT_THAT(timeline.busy, ElementsAre(6, 6));
  EXPECT_THAT(timeline.bubble(), DoubleEq(1 - 12.0 / 18));
  EXPECT_THAT(timeline.live(shape_of(2, 2)), ElementsAre(ElementsAre(2), ElementsAre(1)));
}

TEST(Timeline, OfOrdersWithOtherCosts) {
  // The second rank is twice as slow.
  const Timeline timeline =
      play(orders_of(two_ranks(), shape_of(2, 2)),
           [](int rank, const Action& action) { return unit_cost(rank, action) * (rank + 1); });
  EXPECT_THAT(starts(timeline.blocks[1]), ElementsAre(1, 3, 7, 9));
  EXPECT_THAT(starts(timeline.blocks[0]), ElementsAre(0, 1, 7, 13));
}

TEST(Timeline, PlansWithoutMessageCostsAreTheOrders) {
  const std::vector<Plan> plans = lower_all(two_ranks(), shape_of(2, 2));
  const Timeline timeline = play(plans, unit_costs());
  EXPECT_THAT(starts(timeline.blocks[0]), ElementsAre(0, 1, 4, 7));
  EXPECT_THAT(starts(timeline.blocks[1]), ElementsAre(1, 2, 4, 5));
  EXPECT_EQ(timeline.blocks[0][2].action, (Action{B, 0}));
  EXPECT_EQ(timeline.blocks[0][2].span.end, 6) << "both phases in one block";
  EXPECT_EQ(timeline.actions[0].size(), plans[0].actions.size());
  EXPECT_THAT(timeline.busy, ElementsAre(6, 6));
}

TEST(Timeline, TransfersTakeTheirTimeBesideCompute) {
  PlanCosts costs = unit_costs();
  costs.message = [](int from, const PlanAction::Message&) { return from == 0 ? 0.5 : 3.0; };
  const Timeline timeline = play(lower_all(two_ranks(), shape_of(2, 2)), costs);
  EXPECT_THAT(starts(timeline.blocks[1]), ElementsAre(1.5, 2.5, 4.5, 5.5))
      << "the second forward had arrived";
  EXPECT_THAT(starts(timeline.blocks[0]), ElementsAre(0, 1, 7.5, 10.5));
  EXPECT_EQ(timeline.makespan, 12.5);
}

TEST(Timeline, MessagesOfAPairFollowEachOther) {
  PlanCosts costs = unit_costs();
  costs.message = [](int, const PlanAction::Message&) { return 4.0; };
  const Timeline timeline = play(lower_all(two_ranks(), shape_of(2, 2)), costs);
  EXPECT_THAT(starts(timeline.blocks[1]), ElementsAre(5, 6, 9, 10))
      << "the second transfer starts when the first ended";
}

TEST(Timeline, ReductionsRunBeside) {
  PlanCosts costs = unit_costs();
  const auto compute = costs.action;
  costs.action = [&](int rank, const Plan& plan, const PlanAction& action) {
    return action.kind == PlanAction::Reduce ? 10.0 : compute(rank, plan, action);
  };
  const Plan plan =
      lower(GivenSchedule({{{F, 0}, {B, 0}}}), one_stage(1), four_phases(), {{{2}, {1}, {0}}});
  const Timeline timeline = play(std::vector{plan}, costs);
  EXPECT_EQ(timeline.blocks[0][1].span.end, 3) << "the backward does not wait for them";
  EXPECT_EQ(timeline.makespan, 31.5) << "one after the other, the first from the head's backward";
  EXPECT_EQ(timeline.overlapped[0][0].hidden, 1.5) << "the rest of the backward";
  EXPECT_EQ(timeline.overlapped[0][2].hidden, 0) << "the optimizer's step waits for it";
}

// The second bucket is gathered while the first one's phase runs, and then waited for.
TEST(Timeline, GathersRunBesideUntilTheyAreRead) {
  PlanCosts costs = unit_costs();
  const auto compute = costs.action;
  costs.action = [&](int rank, const Plan& plan, const PlanAction& action) {
    return action.kind == PlanAction::Gather ? 1.0 : compute(rank, plan, action);
  };
  const Plan plan = lower(
      GivenSchedule({{{F, 0}, {B, 0}}}), one_stage(1), four_phases(), {{{2}, {1}, {0}}, true});
  const Timeline timeline = play(std::vector{plan}, costs);
  EXPECT_EQ(timeline.actions[0][2].start, 1) << "the embedding waits for its gather";
  EXPECT_EQ(timeline.actions[0][4].start, 2) << "the block for the second, which follows it";
  EXPECT_EQ(timeline.actions[0][6].start, 3) << "the head for the third, while the block ran";
  ASSERT_EQ(timeline.overlapped[0].size(), 6U) << "three gathers, three reductions";
  const auto& [kind, bucket, span, hidden] = timeline.overlapped[0][2];
  EXPECT_EQ(kind, PlanAction::Gather);
  EXPECT_EQ(bucket, 0);
  EXPECT_EQ(span.start, 2);
  EXPECT_EQ(timeline.overlapped[0][0].hidden, 0) << "nothing can run before it";
  EXPECT_EQ(timeline.overlapped[0][1].hidden, 0.25) << "the embedding";
  EXPECT_EQ(hidden, 0.5) << "both phases of the block";
  const std::string svg = draw_svg(timeline, 1, "gathers", kUnits);
  EXPECT_THAT(svg, HasSubstr("<title>bucket 0, parameters gathered: 2 to 3</title>"));
  EXPECT_THAT(svg, HasSubstr(">parameters gathered</text>"));
  EXPECT_THAT(draw_svg(play(orders_of(two_ranks(), shape_of(2, 2))), 1, "none", kUnits),
              ::testing::Not(HasSubstr("gathered")));
}

// The second stage gathers while it waits for its first activations, so nobody waits for that.
TEST(Timeline, GathersInTheFillOfAPipelineAreHidden) {
  PlanCosts costs = unit_costs();
  const auto compute = costs.action;
  costs.action = [&](int rank, const Plan& plan, const PlanAction& action) {
    return action.kind == PlanAction::Gather ? 1.0 + rank : compute(rank, plan, action);
  };
  std::vector<Plan> plans;
  PipelineShape shape = shape_of(2, 2);
  for (shape.rank = 0; shape.rank < 2; ++shape.rank) {
    plans.push_back(lower(two_ranks(), shape, two_phases_a_chunk(1), {{{0}}, true}));
  }
  const Timeline timeline = play(plans, costs);
  EXPECT_THAT(starts(timeline.blocks[0]), ElementsAre(1, 2, 5, 8));
  EXPECT_THAT(starts(timeline.blocks[1]), ElementsAre(2, 3, 5, 6));
  EXPECT_EQ(timeline.overlapped[0][0].hidden, 0) << "the first stage waits for its own";
  EXPECT_EQ(timeline.overlapped[1][0].hidden, 2) << "it waits for the first stage as well";
}

// Packing takes the time of what is launched after it, unlike a gather.
TEST(Timeline, PreparesAreInTheOrderOfCompute) {
  PlanCosts costs = unit_costs();
  const auto compute = costs.action;
  costs.action = [&](int rank, const Plan& plan, const PlanAction& action) {
    return action.kind == PlanAction::Prepare ? 1.0 : compute(rank, plan, action);
  };
  const BucketUse buckets{{{2}, {1}, {0}}, false, {}, {true, true, false}};
  const Plan plan = lower(GivenSchedule({{{F, 0}, {B, 0}}}), one_stage(1), four_phases(), buckets);
  const Timeline timeline = play(std::vector{plan}, costs);
  EXPECT_EQ(timeline.makespan, 5) << "forward 1, backward 2, two buckets packed";
  EXPECT_EQ(timeline.bubble(), 0) << "that is no waiting";
  ASSERT_EQ(timeline.overlapped[0].size(), 5U) << "two packings, three reductions";
  EXPECT_EQ(timeline.overlapped[0][0].span.start, 0.25) << "after the embedding";
  EXPECT_EQ(timeline.overlapped[0][0].hidden, 0);
  EXPECT_THAT(draw_svg(timeline, 1, "prepares", kUnits),
              HasSubstr("<title>bucket 1, weights prepared: 0.25 to 1.25</title>"));
}

TEST(Timeline, WhatIsComputedAgainIsNoWaiting) {
  PlanCosts costs = unit_costs();
  const auto compute = costs.action;
  costs.action = [&](int rank, const Plan& plan, const PlanAction& action) {
    return action.kind == PlanAction::Recompute ? 0.5 : compute(rank, plan, action);
  };
  const GivenSchedule schedule({{{F, 0}, {B, 0}}});
  const Timeline timeline = play(lower_all(schedule, one_stage(1), true), costs);
  double again = 0, all = 0;
  for (const Timeline::Block& block : timeline.blocks[0]) {
    const double length = block.span.end - block.span.start;
    all += length;
    if (block.again) again += length;
    EXPECT_TRUE(!block.again || block.action == (Action{F, 0}));
  }
  EXPECT_EQ(again, 1);
  EXPECT_EQ(all, 4);
  EXPECT_THAT(timeline.busy, ElementsAre(4));
  EXPECT_EQ(timeline.bubble(), 0);
  EXPECT_THAT(timeline.live(one_stage(1)), ElementsAre(ElementsAre(1)));
  const std::string svg = draw_svg(timeline, 1, "again", kUnits);
  EXPECT_THAT(svg, ::testing::HasSubstr("<title>forward again of microbatch 0, chunk 0: "));
  EXPECT_THAT(svg, ::testing::HasSubstr(">forward again</text>"));
}

// A rank that computes again before the gradient is there is drawn computing, then waiting.
TEST(Timeline, AWaitAfterRecomputationIsAWait) {
  PlanCosts costs = unit_costs();
  const auto compute = costs.action;
  costs.action = [&](int rank, const Plan& plan, const PlanAction& action) {
    return action.kind == PlanAction::Recompute ? 0.5 : compute(rank, plan, action);
  };
  costs.message = [](int, const PlanAction::Message&) { return 10.0; };
  const Timeline timeline = play(lower_all(two_ranks(), shape_of(2, 2), true), costs);
  double drawn = 0;
  for (const Timeline::Block& block : timeline.blocks[0])
    drawn += block.span.end - block.span.start;
  EXPECT_DOUBLE_EQ(drawn, timeline.busy[0]);
}

// The bubble leaves out reductions after the last backward and what precedes the first forward.
TEST(Timeline, TheBubbleIsBetweenTheFirstComputeActionAndTheLast) {
  PlanCosts costs = unit_costs();
  const double alone = play(lower_all(two_ranks(), shape_of(2, 2)), costs).bubble();
  EXPECT_DOUBLE_EQ(alone, play(orders_of(two_ranks(), shape_of(2, 2))).bubble());
  const auto compute = costs.action;
  costs.action = [&](int rank, const Plan& plan, const PlanAction& action) {
    return action.kind == PlanAction::Step ? 100.0 : compute(rank, plan, action);
  };
  const Timeline timeline = play(lower_all(two_ranks(), shape_of(2, 2)), costs);
  EXPECT_GT(timeline.makespan, 100);
  EXPECT_DOUBLE_EQ(timeline.bubble(), alone);
}

TEST(Timeline, DrawsToScale) {
  const std::string svg = draw_svg(
      play(orders_of(two_ranks(), shape_of(2, 2))), 1, "a <b> & c", {"hours", "given times"});
  EXPECT_THAT(svg, ::testing::HasSubstr("a &lt;b&gt; &amp; c: bubble 33.3% (given times)"));
  // Nine units on 600 pixels: the first backward of rank 0 is 2 of them, from 4 on.
  EXPECT_THAT(svg,
              ::testing::HasSubstr("<title>backward of microbatch 0, chunk 0: 4 to 6</title><rect "
                                   "x=\"338.67\" y=\"48.0\" width=\"133.33\""));
  EXPECT_THAT(svg, ::testing::Not(::testing::HasSubstr("backward (inputs)")));
  // The legend says in words what the colours are, the axis what is counted.
  EXPECT_THAT(svg, ::testing::HasSubstr(">forward</text>"));
  EXPECT_THAT(svg, ::testing::HasSubstr(">backward</text>"));
  EXPECT_THAT(svg, ::testing::HasSubstr(">time in hours</text>"));
  for (const char* tick : {"0", "2", "4", "6", "8"}) {
    EXPECT_THAT(svg, ::testing::HasSubstr(fmt::format("text-anchor=\"middle\">{}</text>\n", tick)));
  }
}

}  // namespace timeline_test
}  // namespace tessera::testing

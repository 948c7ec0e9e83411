// What one plan cannot show: each kind of disagreement between ranks is rejected, and named.
#include <gmock/gmock.h>

#include <algorithm>

#include "kernel/schedule/timeline.hpp"
#include "kernel/schedule/verify.hpp"
#include "schedule_support.hpp"
#include "tessera/error.hpp"
#include "tests/common/error_of.hpp"

namespace tessera::testing {
namespace verify_ranks_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using enum Action::Kind;

std::string problem(const std::vector<Plan>& plans) {
  return error_of([&] { verify(plans); });
}

// 1F1B of three microbatches on two ranks. Rank 0: F 0 1, Exchange 2, F 3 4, Exchange 5, Exchange 6
// (gradients of microbatch 0), B 7 8, … Rank 1: Exchanges 0 and 1 (microbatches 0 and 1), F 2 3, B
// 4 5, …
std::vector<Plan> three() {
  PipelineShape shape;
  shape.ranks = 2;
  shape.microbatches = 3;
  const std::vector<std::vector<Action>> orders = {
      {{F, 0}, {F, 1}, {B, 0}, {F, 2}, {B, 1}, {B, 2}},
      {{F, 0}, {B, 0}, {F, 1}, {B, 1}, {F, 2}, {B, 2}}};
  return lower_all(GivenSchedule(orders, 2), shape);
}

std::size_t exchange_at(const Plan& plan, bool receives, int microbatch) {
  for (std::size_t i = 0; i < plan.actions.size(); ++i) {
    const auto& list = receives ? plan.actions[i].receives : plan.actions[i].sends;
    for (const auto& message : list) {
      if (message.microbatch == microbatch) return i;
    }
  }
  return plan.actions.size();
}

// Moves an action to a later place; what waits for it, or for those that it passes, still does.
void move(Plan& plan, int from, int to) {
  auto& actions = plan.actions;
  std::rotate(actions.begin() + from, actions.begin() + from + 1, actions.begin() + to + 1);
  for (PlanAction& action : actions) {
    for (auto* list : {&action.after, &action.released}) {
      for (int& before : *list) {
        if (before == from) {
          before = to;
        } else if (before > from && before <= to) {
          --before;
        }
      }
    }
  }
}

// Lets action `at` release the exchange, instead of the one that does.
void release(Plan& plan, int exchange, std::size_t at) {
  for (PlanAction& action : plan.actions) std::erase(action.released, exchange);
  plan.actions[at].released.push_back(exchange);
}

// Rank 1 receives its first two messages in the other order, and waits for each where it is read.
void swap_first_receives(Plan& plan) {
  std::swap(plan.actions[0].receives, plan.actions[1].receives);
  for (PlanAction& action : plan.actions) {
    const bool entering = action.kind == PlanAction::F && action.after.size() == 1;
    if (entering && action.after[0] <= 1) action.after[0] = 1 - action.after[0];
  }
}

TEST(VerifyRanks, AcceptsWhatLoweringMakes) { EXPECT_EQ(problem(three()), ""); }

TEST(VerifyRanks, PlansOfOnePipeline) {
  std::vector<Plan> plans = three();
  plans[1].shape.rank = 0;
  EXPECT_EQ(problem(plans),
            "the plan of pipeline rank 1 is of another pipeline than that of rank 0");
  plans = three();
  plans[1].stages = {0};
  EXPECT_THAT(problem(plans), StartsWith("the plan of pipeline rank 1 is for stage 0, which is"));
  plans = three();
  plans.pop_back();
  EXPECT_EQ(problem(plans), "there are 1 plans for 2 pipeline ranks");
}

TEST(VerifyRanks, SequencesThatDiffer) {
  std::vector<Plan> plans = three();
  swap_first_receives(plans[1]);
  EXPECT_EQ(problem(plans),
            "the plan of pipeline rank 0 is not valid: action 2 (Exchange send F mb0 stage0 to "
            "rank 1) sends F mb0 stage0 as message 0 to rank 1, which receives F mb1 stage0 there "
            "(action 0)");
}

TEST(VerifyRanks, MessagesWithoutAnotherEnd) {
  std::vector<Plan> plans = three();
  Plan& sender = plans[0];
  const std::size_t dropped = exchange_at(sender, false, 2);
  sender.actions[dropped].sends.clear();
  for (PlanAction& action : sender.actions) {
    std::erase(action.released, static_cast<int>(dropped));
  }
  EXPECT_EQ(
      problem(plans),
      "the plan of pipeline rank 0 is not valid: it never sends the activations of microbatch "
      "2 from stage 0");
  plans = three();
  plans[1].actions[exchange_at(plans[1], true, 2)].receives.clear();
  EXPECT_THAT(
      problem(plans),
      AllOf(StartsWith("the plan of pipeline rank 1 is not valid"),
            HasSubstr("(F mb2 chunk0 layer0 attn) reads what no exchange before it receives")));
}

// Each rank posts a receive and waits for it before it posts what the other waits for: with buffers
// too this cannot go on.
TEST(VerifyRanks, Deadlock) {
  std::vector<Plan> plans = three();
  // Rank 0 posts the send of microbatch 0 only after its first backward.
  ASSERT_EQ(plans[0].text(plans[0].actions[2]), "Exchange send F mb0 stage0 to rank 1");
  release(plans[0], 2, plans[0].actions.size() - 1);
  move(plans[0], 2, static_cast<int>(exchange_at(plans[0], true, 0)) + 2);
  EXPECT_THAT(problem(plans),
              AllOf(HasSubstr("pipeline rank 0 is not valid: action"), HasSubstr("sends F mb1")))
      << "the other microbatch comes first now";
  swap_first_receives(plans[1]);
  EXPECT_THAT(problem(plans),
              AllOf(StartsWith("the plan of pipeline rank 0 is not valid: action 6 (B mb0 chunk0 "
                               "layer0 mlp) never starts: it waits for action 5 (Exchange receive"),
                    HasSubstr("rank 1 waits at action 2 (F mb0 chunk0 layer0 attn)")));
}

// Both ranks wait for a send before they post the receive that the other's send needs: this ends
// only when sends are buffered, and nobody may rely on that.
TEST(VerifyRanks, NothingRestsOnBuffers) {
  std::vector<Plan> plans = three();
  ASSERT_EQ(plans[0].text(plans[0].actions[6]), "Exchange receive B mb0 stage1 from rank 1");
  release(plans[0], 5, 6);
  move(plans[1], 1, 6);
  ASSERT_EQ(plans[1].text(plans[1].actions[6]), "Exchange receive F mb1 stage0 from rank 0");
  release(plans[1], 5, 6);
  EXPECT_THAT(problem(plans),
              HasSubstr("rank 0 is not valid: action 6 (Exchange receive B mb0 stage1 from rank 1) "
                        "never starts: it waits for action 5 (Exchange send F mb1 stage0"));
  PlanCosts costs = unit_costs();
  costs.rendezvous = false;
  EXPECT_EQ(play(plans, costs).makespan, 12);
}

// Each rank launches a send before the receive that the other's send needs. That ends where
// exchanges are independent of each other, but not on one stream.
TEST(VerifyRanks, OneLaunchOrderOfExchanges) {
  std::vector<Plan> plans = three();
  move(plans[1], 1, 6);
  ASSERT_EQ(plans[0].text(plans[0].actions[5]), "Exchange send F mb1 stage0 to rank 1");
  ASSERT_EQ(plans[0].text(plans[0].actions[6]), "Exchange receive B mb0 stage1 from rank 1");
  ASSERT_EQ(plans[1].text(plans[1].actions[5]), "Exchange send B mb0 stage1 to rank 0");
  ASSERT_EQ(plans[1].text(plans[1].actions[6]), "Exchange receive F mb1 stage0 from rank 0");
  EXPECT_THAT(problem(plans),
              HasSubstr("never starts: it waits for action 5 (Exchange send F mb1 stage0"));
  EXPECT_EQ(play(plans, unit_costs()).makespan, 12);
}

TEST(VerifyRanks, SendsAreReleasedOnce) {
  std::vector<Plan> plans = three();
  ASSERT_EQ(plans[1].actions.back().kind, PlanAction::Step);
  ASSERT_FALSE(plans[1].actions.back().released.empty());
  const int exchange = plans[1].actions.back().released.front();
  plans[1].actions.back().released.erase(plans[1].actions.back().released.begin());
  EXPECT_THAT(problem(plans), HasSubstr("(Step) does not wait until everything is sent"));
  plans[1].actions.back().released = {exchange, exchange};
  EXPECT_THAT(problem(plans), HasSubstr("(Step) releases what is not sent, or a second time"));
}

// A rank waits for what it reads. What it sent before may lie until its peer has time for it.
TEST(VerifyRanks, AWaitIsForOneThing) {
  std::vector<Plan> plans = three();
  PlanCosts costs = unit_costs();
  // Rank 0 sends microbatch 1 while rank 1 computes, which posts its receive only after that.
  costs.message = [](int from, const PlanAction::Message& message) {
    return from == 0 && message.microbatch == 2 ? 100.0 : 0.0;
  };
  const Timeline timeline = play(plans, costs);
  const auto reads = [&](int microbatch) {
    return std::ranges::find_if(timeline.blocks[0],
                                [&](const Timeline::Block& block) {
                                  return block.action == Action{B, microbatch};
                                })
        ->span.start;
  };
  EXPECT_LT(reads(1), 100) << "rank 0 has microbatch 2 still on its way";
  EXPECT_GT(reads(2), 100);
}

}  // namespace verify_ranks_test
}  // namespace tessera::testing

// A plan of many microbatches as one of few with a stretch repeated.
#include "kernel/planner/repetition.hpp"

#include <gtest/gtest.h>

#include "tests/unit/schedule/schedule_support.hpp"

namespace tessera {
namespace repetition_test {

using testing::GivenSchedule;
using testing::lower_all;

// 1F1B of two ranks.
std::vector<Plan> plans(int microbatches) {
  std::vector<std::vector<Action>> orders(2);
  for (int i = 0; i < microbatches; ++i) {
    orders[0].push_back({Action::F, i});
    if (i > 0) orders[0].push_back({Action::B, i - 1});
    orders[1].push_back({Action::F, i});
    orders[1].push_back({Action::B, i});
  }
  orders[0].push_back({Action::B, microbatches - 1});
  return lower_all(GivenSchedule(orders, 2), {.ranks = 2, .microbatches = microbatches});
}

TEST(Repetition, EachActionHasOneThatStandsForIt) {
  const std::vector<Plan> many = plans(40), few = plans(10);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const auto found = repetition(many[rank], few[rank]);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->times, 15U);  // of two microbatches each
    EXPECT_EQ(found->times * found->period + few[rank].actions.size(), many[rank].actions.size());
    for (std::size_t i = 0; i < many[rank].actions.size(); ++i) {
      const PlanAction &action = many[rank].actions[i],
                       &as = few[rank].actions.at(found->source(i));
      ASSERT_EQ(action.kind, as.kind);
      ASSERT_EQ(action.phase, as.phase);
      ASSERT_EQ(action.bucket, as.bucket);
      ASSERT_EQ((action.microbatch - as.microbatch) % 2, 0);
      ASSERT_EQ(action.sends.size(), as.sends.size());
    }
    EXPECT_EQ(found->source(0), 0U);
    EXPECT_EQ(found->source(many[rank].actions.size() - 1), few[rank].actions.size() - 1);
  }
}

TEST(Repetition, NothingStandsForWhatIsDifferent) {
  const Plan few = plans(10)[0];
  EXPECT_FALSE(repetition(few, few));
  EXPECT_FALSE(repetition(plans(39)[0], few)) << "not by whole groups";
  EXPECT_FALSE(repetition(plans(40)[0], plans(4)[0])) << "the stretch has no equal one before it";
  const Plan many = plans(40)[0];
  ASSERT_TRUE(repetition(many, few));
  for (std::size_t i = 0; i < many.actions.size(); ++i) {
    Plan other = many;
    other.actions[i].chunk = 7;
    EXPECT_FALSE(repetition(other, few)) << i;
    other = many;
    other.actions[i].sends.push_back({.peer = 5});
    EXPECT_FALSE(repetition(other, few)) << i;
    other = many;
    other.actions[i].released.push_back(0);
    EXPECT_FALSE(repetition(other, few)) << i;
  }
}

TEST(Repetition, FewAreFewerOnlyWhereThatIsEnough) {
  std::vector<std::vector<Action>> orders(1);
  for (int i = 0; i < 5; ++i) orders[0].insert(orders[0].end(), {{Action::F, i}, {Action::B, i}});
  EXPECT_EQ(enough_microbatches(GivenSchedule(orders), 1, 400), 5);
  EXPECT_EQ(enough_microbatches(GivenSchedule(orders), 1, 5), 5);
  EXPECT_EQ(enough_microbatches(GivenSchedule(orders), 1, 3), 3);
  orders[0].pop_back();  // it refuses five
  EXPECT_EQ(enough_microbatches(GivenSchedule(orders), 1, 400), 400);
}

}  // namespace repetition_test
}  // namespace tessera

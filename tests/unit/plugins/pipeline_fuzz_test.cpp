// Schedules and plans with random changes: each is rejected, or runs to the right end on a machine
// that knows nothing of the verifier, whether sends wait for their receive or are buffered.
#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "kernel/schedule/verify.hpp"
#include "tessera/error.hpp"
#include "tests/unit/plugins/plugins_support.hpp"
#include "tests/unit/schedule/plan_machine.hpp"
#include "tests/unit/schedule/schedule_mutants.hpp"

namespace tessera {
namespace pipeline_fuzz_test {

using testing::below;
using testing::Random;
using Plans = std::vector<Plan>;

struct Case {
  std::string type, keys;
  int ranks, microbatches;
};
const std::vector<Case> kCases = {{"gpipe", "", 3, 4},
                                  {"1f1b", "", 2, 4},
                                  {"1f1b", "", 4, 5},
                                  {"interleaved_1f1b", "chunks = 2", 2, 4},
                                  {"interleaved_1f1b", "chunks = 3", 3, 3},
                                  {"zb_h1", "", 3, 4},
                                  {"zbv", "", 2, 3},
                                  {"zbv", "", 3, 5},
                                  {"dualpipe_v", "", 2, 4},
                                  {"1f1b", "overlap = true", 3, 6},
                                  {"interleaved_1f1b", "overlap = true", 2, 4},
                                  {"dualpipe_v", "overlap = true", 2, 5}};

struct Counts {
  int accepted = 0, rejected = 0;
};

std::shared_ptr<PipelineSchedule> make(const Case& c) {
  ScheduleArguments arguments{c.ranks};
  return make_plugin<PipelineSchedule>(c.type, c.keys, arguments);
}

PipelineShape shape_of(const Case& c, const PipelineSchedule& schedule, bool training) {
  PipelineShape shape;
  shape.ranks = c.ranks;
  shape.chunks = schedule.chunks();
  shape.microbatches = c.microbatches;
  shape.training = training;
  return shape;
}

/// Counts it, or runs it; an accepted plan that goes wrong is a failure.
void judge(const std::function<Plans()>& make_plans, u64 seed, Counts& counts) {
  Plans plans;
  try {
    plans = make_plans();
    verify(plans);
  } catch (const Error&) {
    ++counts.rejected;
    return;
  }
  ++counts.accepted;
  for (const bool rendezvous : {true, false}) {
    for (u64 i = 0; i < 2; ++i) {
      const std::string wrong = testing::PlanMachine(plans, rendezvous, seed + i).run();
      if (wrong.empty()) continue;
      std::string text;
      for (const Plan& plan : plans) text += plan.text() + "\n";
      FAIL() << wrong << (rendezvous ? " (rendezvous)" : " (buffered)") << " of\n" << text;
    }
  }
}

// Where each old action went, by new index; -1 for a new one.
void reindex(Plan& plan, const std::vector<int>& came_from) {
  std::vector<int> went(plan.actions.size() + 2, -1);
  for (std::size_t i = 0; i < came_from.size(); ++i) {
    auto& to = went[static_cast<std::size_t>(came_from[i])];
    if (to < 0) to = static_cast<int>(i);
  }
  Plan out = plan;
  out.actions.clear();
  for (const int from : came_from) {
    PlanAction action = plan.actions[static_cast<std::size_t>(from)];
    for (auto* list : {&action.after, &action.released}) {
      std::vector<int> now;
      for (const int before : *list) {
        const int to = went[static_cast<std::size_t>(before)];
        if (to >= 0) now.push_back(to);
      }
      *list = now;
    }
    out.actions.push_back(std::move(action));
  }
  plan = std::move(out);
}

// Another order of the same actions, one dropped or one twice.
void change_order(Plan& plan, Random& random) {
  std::vector<int> from(plan.actions.size());
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<int>(i);
  const std::size_t a = below(random, from.size()), b = below(random, from.size());
  const auto at = [&](std::size_t i) { return from.begin() + static_cast<std::ptrdiff_t>(i); };
  const int moved = from[a];
  switch (below(random, 5)) {
    case 0:
      std::swap(from[a], from[std::min(a + 1, from.size() - 1)]);
      break;
    case 1:
      std::swap(from[a], from[b]);
      break;
    case 2:
      from.erase(at(a));
      from.insert(at(std::min(b, from.size())), moved);
      break;
    case 3:
      from.erase(at(a));
      break;
    default:
      from.insert(at(b), moved);
  }
  reindex(plan, from);
}

// Something about a message, or about what waits for it.
void change_messages(Plan& plan, Random& random) {
  std::vector<PlanAction*> exchanges;
  for (PlanAction& action : plan.actions) {
    if (action.kind == PlanAction::Exchange) exchanges.push_back(&action);
  }
  if (exchanges.empty()) return;
  PlanAction& exchange = *exchanges[below(random, exchanges.size())];
  PlanAction& other = *exchanges[below(random, exchanges.size())];
  auto& list = exchange.sends.empty() ? exchange.receives : exchange.sends;
  if (list.empty()) return;
  PlanAction::Message& message = list[below(random, list.size())];
  const auto any = [&](int n) {
    return static_cast<int>(below(random, static_cast<std::size_t>(n)));
  };
  switch (below(random, 9)) {
    case 0:
      message.microbatch = any(plan.shape.microbatches);
      break;
    case 1:
      message.stage = any(plan.shape.virtual_stages());
      break;
    case 2:
      message.peer = any(plan.shape.ranks);
      break;
    case 3:
      message.forward = !message.forward;
      break;
    case 4:
      list.erase(list.begin() + (&message - list.data()));
      break;
    case 5:
      list.push_back(PlanAction::Message(message));
      break;
    case 6:
      std::swap(exchange.receives, other.receives);
      break;
    case 7: {  // released earlier or later
      const int index = static_cast<int>(&exchange - plan.actions.data());
      for (PlanAction& action : plan.actions) std::erase(action.released, index);
      plan.actions[below(random, plan.actions.size())].released.push_back(index);
      break;
    }
    default: {
      PlanAction& reader = plan.actions[below(random, plan.actions.size())];
      if (reader.kind == PlanAction::Reduce || reader.after.empty()) break;
      reader.after.erase(reader.after.begin() +
                         static_cast<std::ptrdiff_t>(below(random, reader.after.size())));
    }
  }
}

void fuzz(const std::function<void(const Case&, bool, Random&, u64, Counts&)>& one, int times) {
  for (const Case& c : kCases) {
    for (const bool training : {true, false}) {
      SCOPED_TRACE(fmt::format("{} p {} training {}", c.type, c.ranks, training));
      Random random(17);
      Counts counts;
      for (int i = 0; i < times && !::testing::Test::HasFailure(); ++i) {
        one(c, training, random, static_cast<u64>(i), counts);
      }
      EXPECT_GT(counts.rejected, times / 10);
      EXPECT_GT(counts.accepted, 0);
      ::testing::Test::RecordProperty(fmt::format("{}_{}_{}", c.type, c.ranks, training),
                                      fmt::format("{}/{}", counts.accepted, counts.rejected));
    }
  }
}

TEST(ScheduleFuzz, OrdersAreRejectedOrRight) {
  fuzz(
      [](const Case& c, bool training, Random& random, u64 seed, Counts& counts) {
        const auto schedule = make(c);
        const PipelineShape shape = shape_of(c, *schedule, training);
        const auto by_rank = testing::mutant_orders(*schedule, shape, random);
        const testing::MutatedSchedule mutant(schedule, shape, by_rank);
        judge([&] { return testing::lower_all(mutant, shape, seed % 2 == 0); }, seed, counts);
      },
      150);
}

TEST(ScheduleFuzz, PlansAreRejectedOrRight) {
  fuzz(
      [](const Case& c, bool training, Random& random, u64 seed, Counts& counts) {
        const auto schedule = make(c);
        Plans plans =
            testing::lower_all(*schedule, shape_of(c, *schedule, training), seed % 2 == 0);
        for (std::size_t changes = 1 + below(random, 2); changes > 0; --changes) {
          Plan& plan = plans[below(random, plans.size())];
          below(random, 2) == 0 ? change_order(plan, random) : change_messages(plan, random);
        }
        judge([&] { return plans; }, seed, counts);
      },
      150);
}

// What the machine says of plans as they are, and that it would notice.
TEST(ScheduleFuzz, TheMachineKnowsRightFromWrong) {
  const auto schedule = make(kCases[2]);
  const PipelineShape shape = shape_of(kCases[2], *schedule, true);
  const Plans right = testing::lower_all(*schedule, shape, true);
  EXPECT_EQ(testing::PlanMachine(right, true, 1).run(), "");
  Plans wrong = right;
  for (PlanAction& action : wrong[1].actions) {
    if (action.kind == PlanAction::Exchange && !action.receives.empty()) {
      action.receives[0].microbatch ^= 1;
      break;
    }
  }
  EXPECT_NE(testing::PlanMachine(wrong, true, 1).run(), "");
  // Rank 1 posts a receive only after what depends on it at rank 0: fine only with buffers.
  EXPECT_THROW(verify(wrong), Error);
}

TEST(ScheduleFuzz, AcceptedMutantsDiffer) {
  const auto schedule = make(kCases[1]);
  const PipelineShape shape = shape_of(kCases[1], *schedule, true);
  const auto mutants = testing::accepted_mutants(schedule, shape, 5, 3);
  ASSERT_EQ(mutants.size(), 5U);
  for (const auto& mutant : mutants) {
    EXPECT_NE(orders_of(*mutant, shape).by_rank, orders_of(*schedule, shape).by_rank);
  }
}

}  // namespace pipeline_fuzz_test
}  // namespace tessera

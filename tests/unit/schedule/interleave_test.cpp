// Pairs of a forward and a backward pass: whose phase runs when.
#include "kernel/schedule/interleave.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <numeric>

#include "kernel/schedule/timeline.hpp"
#include "kernel/schedule/verify.hpp"
#include "schedule_support.hpp"

namespace tessera::testing {
namespace interleave_test {

using ::testing::ElementsAre;

void add(std::vector<PhaseInfo>& phases, int layer, const std::string& scope) {
  const bool comm = scope == "dispatch" || scope == "combine";
  PhaseInfo info;
  info.layer = layer;
  info.phase = static_cast<int>(phases.size());
  info.scope = scope;
  info.starts_exchange = comm;
  phases.push_back(info);
}

// Layers of attention and an MLP, or of experts on several ranks.
std::vector<PhaseInfo> layers(const std::vector<bool>& experts) {
  std::vector<PhaseInfo> phases;
  for (int layer = 0; layer < static_cast<int>(experts.size()); ++layer) {
    if (experts[static_cast<std::size_t>(layer)]) {
      for (const char* scope : {"attn", "router", "dispatch", "experts", "combine", "unpermute"}) {
        add(phases, layer, scope);
      }
    } else {
      for (const char* scope : {"attn", "mlp"}) add(phases, layer, scope);
    }
  }
  return phases;
}

std::string steps_of(const std::vector<PhaseInfo>& phases,
                     const std::vector<int>& down,
                     const std::vector<int>& up,
                     bool weights_last = false) {
  constexpr std::string_view kNames[] = {"F", "B", "Bi", "Bw"};
  std::vector<std::string> text;
  for (const PairStep& step : interleave(phases, down, up, weights_last)) {
    const PhaseInfo& info = phases[static_cast<std::size_t>(step.phase)];
    text.push_back(fmt::format("{}{} {}", kNames[step.kind], info.layer, info.scope));
  }
  return fmt::format("{}", fmt::join(text, ", "));
}

// Of all phases there and back.
std::string steps_of(const std::vector<PhaseInfo>& phases, bool weights_last = false) {
  std::vector<int> down(phases.size());
  std::iota(down.begin(), down.end(), 0);
  return steps_of(phases, down, {down.rbegin(), down.rend()}, weights_last);
}

TEST(Interleave, HidesEachExchangeBehindTheOtherPass) {
  EXPECT_EQ(steps_of(layers({true, true})),
            "B1 unpermute, B1 combine, F0 attn, F0 router, Bi1 experts, F0 dispatch, "
            "Bw1 experts, B1 dispatch, F0 experts, F0 combine, B1 router, B1 attn, "
            "B0 unpermute, B0 combine, F0 unpermute, F1 attn, F1 router, Bi0 experts, "
            "F1 dispatch, Bw0 experts, B0 dispatch, F1 experts, F1 combine, B0 router, "
            "B0 attn, F1 unpermute");
}

TEST(Interleave, TakesTurnsLayerByLayerWithoutExchanges) {
  EXPECT_EQ(steps_of(layers({false, false})),
            "F0 attn, F0 mlp, B1 mlp, B1 attn, F1 attn, F1 mlp, B0 mlp, B0 attn");
}

// What a layer without exchanges computes is divided among those of the other pass.
TEST(Interleave, DividesALayerAmongTheExchangesOfTheOther) {
  EXPECT_EQ(steps_of(layers({true, false})),
            "F0 attn, F0 router, F0 dispatch, B1 mlp, F0 experts, F0 combine, B1 attn, "
            "B0 unpermute, B0 combine, F0 unpermute, F1 attn, B0 experts, B0 dispatch, "
            "F1 mlp, B0 router, B0 attn");
}

// Two layers without experts forward, one of experts backward.
TEST(Interleave, RunsAloneWhatOnePassHasMore) {
  const std::vector<PhaseInfo> phases = layers({false, false, true, true});
  EXPECT_EQ(steps_of(phases, {0, 1, 2, 3}, {15, 14, 13, 12, 11, 10}),
            "B3 unpermute, B3 combine, F0 attn, B3 experts, B3 dispatch, F0 mlp, B3 router, "
            "B3 attn, F1 attn, F1 mlp");
}

TEST(Interleave, LeavesPhasesInGraphsWhole) {
  std::vector<PhaseInfo> phases = layers({true});
  phases[3].graph = 0;
  EXPECT_EQ(steps_of(phases),
            "B0 unpermute, B0 combine, F0 attn, F0 router, F0 dispatch, B0 experts, "
            "B0 dispatch, F0 experts, F0 combine, B0 router, B0 attn, F0 unpermute");
}

// What both passes send is complete before the last weight halves.
TEST(Interleave, EndsWithTheWeightHalvesOfTheLastLayer) {
  EXPECT_EQ(steps_of(layers({true}), true),
            "B0 unpermute, B0 combine, F0 attn, F0 router, Bi0 experts, F0 dispatch, "
            "Bw0 experts, B0 dispatch, F0 experts, F0 combine, Bi0 router, Bi0 attn, "
            "F0 unpermute, Bw0 router, Bw0 attn");
  EXPECT_EQ(steps_of(layers({false, false}), true),
            "F0 attn, F0 mlp, B1 mlp, B1 attn, F1 attn, F1 mlp, Bi0 mlp, Bi0 attn, Bw0 mlp, "
            "Bw0 attn");
  std::vector<PhaseInfo> phases = layers({false, false, false});
  phases.erase(phases.begin());  // the first layer has one phase now, as an embedding has
  for (PhaseInfo& info : phases) --info.phase;
  EXPECT_EQ(steps_of(phases, true),
            "F0 mlp, F1 attn, F1 mlp, B2 mlp, B2 attn, F2 attn, F2 mlp, Bi1 mlp, Bi1 attn, "
            "Bi0 mlp, Bw1 mlp, Bw1 attn, Bw0 mlp");
}

TEST(Interleave, LeavesPhasesInGraphsWholeAtTheEnd) {
  std::vector<PhaseInfo> phases = layers({false});
  phases[0].graph = 0;
  EXPECT_EQ(steps_of(phases, true), "F0 attn, F0 mlp, Bi0 mlp, B0 attn, Bw0 mlp");
}

class Overlapping final : public PipelineSchedule {
 public:
  bool do_overlaps() const override { return true; }
  std::vector<Action> do_order(const PipelineShape&) const override {
    using enum Action::Kind;
    return {{F, 0}, {F, 1}, {B, 0}, {B, 1}, {F, 2}, {B, 2}};
  }
};

// A forward and the backward of its own microbatch are no pair.
TEST(Pairs, AreOfTwoMicrobatches) {
  const PipelineShape shape = one_stage(3);
  const Orders orders = orders_of(Overlapping(), shape);
  EXPECT_THAT(orders.pairs[0], ElementsAre(false, true, false, false, false, false));

  const Plan plan = lower(Overlapping(), shape, layers({true}), {{{0}}});
  verify(plan);
  std::vector<std::string> pair;
  for (std::size_t i = 6; i < 19; ++i) pair.push_back(plan.text(plan.actions[i]));
  EXPECT_EQ(fmt::format("{}", fmt::join(pair, ", ")),
            "B mb0 chunk0 layer0 unpermute, B mb0 chunk0 layer0 combine, "
            "F mb1 chunk0 layer0 attn, F mb1 chunk0 layer0 router, "
            "Bi mb0 chunk0 layer0 experts, F mb1 chunk0 layer0 dispatch, "
            "Bw mb0 chunk0 layer0 experts, B mb0 chunk0 layer0 dispatch, "
            "F mb1 chunk0 layer0 experts, F mb1 chunk0 layer0 combine, "
            "B mb0 chunk0 layer0 router, B mb0 chunk0 layer0 attn, "
            "F mb1 chunk0 layer0 unpermute");
}

// Two ranks, each of which passes on what both of its passes make.
class Paired final : public PipelineSchedule {
 public:
  bool do_overlaps() const override { return true; }
  int do_live(const PipelineShape&, int) const override { return 4; }
  int do_warmup(const PipelineShape& shape) const override { return shape.rank == 0 ? 3 : 1; }
  std::vector<Action> do_order(const PipelineShape& shape) const override {
    std::vector<Action> actions;
    for (int forward = 0; forward < shape.microbatches + warmup(shape); ++forward) {
      const int backward = forward - warmup(shape);
      if (forward < shape.microbatches) actions.push_back({Action::F, forward});
      if (backward >= 0) actions.push_back({Action::B, backward});
    }
    return actions;
  }
};

std::vector<Plan> paired_plans(int microbatches) {
  PipelineShape shape = one_stage(microbatches);
  shape.ranks = 2;
  std::vector<Plan> plans;
  for (shape.rank = 0; shape.rank < 2; ++shape.rank) {
    plans.push_back(lower(Paired(), shape, layers({false}), {{{0}}}));
  }
  return plans;
}

TEST(Pairs, SendBeforeTheirLastWeightHalves) {
  const std::vector<Plan> plans = paired_plans(5);
  verify(plans);
  EXPECT_THAT(
      plans[1].text(),
      ::testing::HasSubstr("F mb2 chunk0 layer0 attn\n"
                           "F mb2 chunk0 layer0 mlp\n"
                           "Bi mb1 chunk0 layer0 mlp\n"
                           "Bi mb1 chunk0 layer0 attn\n"
                           "Exchange send B mb1 stage1 to rank 0 receive F mb3 stage0 from rank 0\n"
                           "Bw mb1 chunk0 layer0 mlp\n"
                           "Bw mb1 chunk0 layer0 attn\n"));
}

// A message takes less time than the weight halves, so that neighbours never wait for one between
// their pairs: a microbatch more costs what it computes.
TEST(Pairs, HideWhatTheySend) {
  PlanCosts costs = unit_costs();
  costs.message = [](int, const PlanAction::Message&) { return 0.9; };
  const auto makespan = [&](int microbatches) {
    return play(paired_plans(microbatches), costs).makespan;
  };
  for (const int microbatches : {8, 9, 10}) {
    EXPECT_NEAR(makespan(microbatches + 1) - makespan(microbatches), 3, 1e-9);
  }
  EXPECT_THAT(play(paired_plans(8), costs).live(paired_plans(8)[0].shape),
              ElementsAre(ElementsAre(4), ElementsAre(2)));
}

}  // namespace interleave_test
}  // namespace tessera::testing

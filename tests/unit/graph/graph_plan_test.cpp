// How many graphs a plan needs, in which slots microbatches run, and what the memory check finds.
#include "kernel/graph/graph_plan.hpp"

#include <gmock/gmock.h>

#include "kernel/schedule/layer_order.hpp"
#include "kernel/schedule/lower.hpp"
#include "kernel/schedule/orders.hpp"
#include "tessera/error.hpp"
#include "tests/common/error_of.hpp"
#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera {
namespace graph_plan_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Chunks of `layers` layers with two phases each; every layer is one captured range.
Plan plan_of(std::string_view type,
             const PipelineShape& of,
             int layers,
             const std::string& keys = "",
             bool recompute = false) {
  ScheduleArguments arguments{of.ranks};
  const auto schedule = make_plugin<PipelineSchedule>(type, keys, arguments);
  PipelineShape shape = shape_of(*schedule, of.ranks, of.microbatches, true);
  shape.rank = of.rank;
  std::vector<PhaseInfo> phases;
  std::vector<CapturedRange> ranges;
  std::vector<std::vector<int>> buckets;
  for (int chunk = 0; chunk < shape.chunks; ++chunk) {
    for (int layer = 0; layer < layers; ++layer) {
      const int number = chunk * layers + layer;
      buckets.push_back({number});
      ranges.push_back({chunk, 2 * layer, 2 * layer + 1});
      for (const int part : {0, 1}) {
        PhaseInfo& info = phases.emplace_back();
        info.chunk = chunk;
        info.layer = number;
        info.phase = 2 * layer + part;
        info.scope = part == 0 ? "attn" : "mlp";
        info.recompute = recompute;
      }
    }
  }
  mark_captured(phases, ranges);
  return lower(*schedule, shape, phases, {buckets});
}

PipelineShape pipeline(int ranks, int rank, int microbatches) {
  return {.ranks = ranks, .rank = rank, .microbatches = microbatches};
}

TEST(GraphCounts, OneSlotWhereEachBackwardFollowsItsForward) {
  // [1, -1] · 4
  const GraphPlan graphs = plan_graphs(plan_of("sequential", pipeline(1, 0, 4), 3));
  EXPECT_EQ(graphs.graphs(), 2 * 3);
  EXPECT_THAT(graphs.slots, ElementsAre(1));
}

TEST(GraphCounts, AsManySlotsAsMicrobatchesWhereAllForwardsComeFirst) {
  // [1, 1, 1, 1, -1, -1, -1, -1]
  const GraphPlan graphs = plan_graphs(plan_of("gpipe", pipeline(1, 0, 4), 3));
  EXPECT_EQ(graphs.graphs(), 2 * 3 * 4);
  EXPECT_THAT(graphs.slots, ElementsAre(4));
}

TEST(GraphCounts, OneMoreForSplitHalvesAndForRecomputation) {
  const PipelineShape shape = pipeline(2, 0, 8);
  const GraphPlan split = plan_graphs(plan_of("zbv", shape, 1));
  ASSERT_EQ(split.segments.size(), 2U);
  EXPECT_EQ(split.graphs(), 3 * (split.slots[0] + split.slots[1]));
  const GraphPlan again = plan_graphs(plan_of("1f1b", shape, 3, "", true));
  EXPECT_EQ(again.graphs(), 3 * 3 * again.slots[0]);
}

struct Counts {
  int graphs, pairs;
};

// Four pipeline ranks with two chunks of n layers: the number of microbatches does not matter,
// where one graph a microbatch would make 4 · n · microbatches.
TEST(GraphCounts, GrowWithLiveMicrobatchesOnly) {
  const Counts kRanks[] = {{24, 11}, {24, 9}, {20, 7}, {12, 5}};
  for (const int layers : {1, 3}) {
    for (const int microbatches : {8, 16, 32}) {
      for (int rank = 0; rank < 4; ++rank) {
        SCOPED_TRACE(fmt::format("{} microbatches, rank {}", microbatches, rank));
        const Plan plan =
            plan_of("interleaved_1f1b", pipeline(4, rank, microbatches), layers, "chunks = 2");
        const GraphPlan graphs = plan_graphs(plan);
        EXPECT_EQ(graphs.graphs(), kRanks[rank].graphs * layers);
        EXPECT_EQ(graphs.live_pairs, kRanks[rank].pairs);
        for (int chunk = 0; chunk < 2; ++chunk) {
          const auto at = static_cast<std::size_t>(chunk);
          EXPECT_LE(graphs.slots[at], plan.live[at]);
        }
      }
    }
  }
}

// The published order of buffers that all chunks share.
TEST(SlotQueueOrder, TakesTheOneThatWasGivenBackFirst) {
  const Plan plan = plan_of("interleaved_1f1b", pipeline(4, 0, 8), 1, "chunks = 2");
  SlotQueue queue;
  std::map<std::pair<int, int>, int> held;
  std::vector<int> taken;
  for (const PlanAction& action : plan.actions) {
    const auto pair = std::pair(action.chunk, action.microbatch);
    const bool edge =
        action.phase >= 0 && plan.phases[static_cast<std::size_t>(action.phase)].phase == 0;
    if (!edge) continue;
    if (action.kind == PlanAction::F) taken.push_back(held[pair] = queue.take());
    if (action.kind == PlanAction::B) queue.give_back(held.at(pair));
  }
  EXPECT_THAT(taken, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 4, 5, 6, 7, 0));
}

// Replays of layers, forward or of the input half, in the published notation.
std::vector<double> replayed_layers(const Plan& plan) {
  const GraphPlan graphs = plan_graphs(plan);
  std::vector<double> all;
  for (const PlanAction& action : plan.actions) {
    const Replays replays = replays_of(plan, graphs, action);
    if (replays.count == 0 || action.kind == PlanAction::Bw) continue;
    const auto layer = static_cast<double>(replays.segment + 1);
    all.push_back(action.kind == PlanAction::F ? layer : -layer);
  }
  return all;
}

// Pairs: one more microbatch is live, and each chunk has a slot for each that is.
TEST(GraphsOfPairs, AreReplayedInLayerOrderInAsManySlotsAsAreLive) {
  const std::string on = "overlap = true";
  for (const std::string type : {"sequential", "1f1b", "interleaved_1f1b", "dualpipe_v"}) {
    for (const int ranks : {1, 2}) {
      if (type == "sequential" && ranks > 1) continue;
      for (const int layers : {1, 3}) {
        ScheduleArguments arguments{ranks};
        const auto schedule = make_plugin<PipelineSchedule>(type, on, arguments);
        const Orders orders = orders_of(*schedule, shape_of(*schedule, ranks, 8, true));
        const std::vector<int> counts(static_cast<std::size_t>(orders.shape.chunks), layers);
        for (int rank = 0; rank < ranks; ++rank) {
          SCOPED_TRACE(fmt::format("{} rank {} of {}, {} layers", type, rank, ranks, layers));
          const Plan plan = plan_of(type, pipeline(ranks, rank, 8), layers, on);
          EXPECT_EQ(plan_graphs(plan).slots, plan.live);
          std::vector<double> expected;
          for (const LayerAction& action :
               layer_order(orders, static_cast<std::size_t>(rank), counts)) {
            if (action.kind != Action::Bw) expected.push_back(layer_number(action, counts));
          }
          EXPECT_EQ(replayed_layers(plan), expected);
        }
      }
    }
  }
}

TEST(MarkCaptured, RefusesWhatCannotBe) {
  std::vector<PhaseInfo> phases(2);
  phases[1].phase = 1;
  phases[1].shapes = Shapes::dynamic;
  phases[1].scope = "moe_dispatch";
  const auto error = [&](std::vector<CapturedRange> ranges) {
    std::vector<PhaseInfo> marked = phases;
    return text_of<Error>([&] { mark_captured(marked, ranges); });
  };
  EXPECT_THAT(error({{0, 0, 1}}), HasSubstr("where the shapes of \"moe_dispatch\" depend on data"));
  EXPECT_THAT(error({{0, 0, 0}, {0, 0, 0}}), HasSubstr("twice"));
  EXPECT_THAT(error({{1, 0, 0}}), HasSubstr("do not exist"));
  EXPECT_THAT(error({{0, 1, 0}}), HasSubstr("do not exist"));
}

// Memory that nobody has: each graph keeps a page of its own, all share one for scratch.
class FakeMemory {
 public:
  explicit FakeMemory(const GraphPlan& graphs) {
    i64 page = 1;
    for (const Segment& segment : graphs.segments) {
      auto& slots = memory_.emplace_back();
      for (int slot = 0; slot < graphs.slots_of(segment); ++slot) {
        auto& list = slots.emplace_back();
        for (int i = 0; i < segment.graphs(); ++i) {
          GraphMemory& graph = list.emplace_back();
          graph.slot = fmt::format("segment {} slot {}", memory_.size() - 1, slot);
          graph.name = fmt::format("{} graph {}", graph.slot, i);
          graph.index = i;
          graph.last = i + 1 == segment.graphs();
          const bool shared = segment.recompute && !segment.split && i == 1;
          (shared ? graph.recomputed : graph.kept).push_back(at(shared ? kRecomputed : page++));
          graph.scratch.push_back(at(0));
        }
      }
    }
  }
  std::vector<std::vector<std::vector<GraphMemory>>>& all() { return memory_; }
  SlotMemory get() {
    return [this](std::size_t segment, int slot) {
      return std::span<const GraphMemory>(memory_.at(segment).at(static_cast<std::size_t>(slot)));
    };
  }

 private:
  static constexpr i64 kPage = 4096, kRecomputed = 100000;
  static AddressRange at(i64 page) { return {reinterpret_cast<const void*>(page * kPage), kPage}; }
  std::vector<std::vector<std::vector<GraphMemory>>> memory_;
};

std::string memory_error(const Plan& plan,
                         const GraphPlan& graphs,
                         FakeMemory& memory,
                         Sent sent = Sent::copied) {
  return testing::error_of([&] { check_memory(plan, graphs, memory.get(), sent); });
}

struct Case {
  std::string type, keys;
  bool recompute = false;
};

std::vector<Case> cases() {
  return {{"1f1b", ""},
          {"1f1b", "", true},
          {"gpipe", ""},
          {"interleaved_1f1b", "chunks = 2"},
          {"interleaved_1f1b", "chunks = 2", true},
          {"zbv", ""},
          {"zbv", "", true},
          {"dualpipe_v", ""}};
}

TEST(CheckMemory, PassesOverWholePlans) {
  for (const Case& c : cases()) {
    for (const int rank : {0, 1}) {
      SCOPED_TRACE(fmt::format("{} rank {}", c.type, rank));
      const Plan plan = plan_of(c.type, pipeline(2, rank, 8), 2, c.keys, c.recompute);
      const GraphPlan graphs = plan_graphs(plan);
      FakeMemory memory(graphs);
      EXPECT_EQ(memory_error(plan, graphs, memory), "");
    }
  }
}

// Mutant: a chunk with one slot less than microbatches that are live at once.
TEST(CheckMemory, FindsASlotThatIsReusedTooEarly) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.type);
    const Plan plan = plan_of(c.type, pipeline(2, 0, 8), 2, c.keys, c.recompute);
    GraphPlan graphs = plan_graphs(plan);
    FakeMemory memory(graphs);
    const int last = graphs.slots[0] - 1;
    ASSERT_GE(last, 1);
    for (int& slot : graphs.of[0]) slot = std::min(slot, last - 1);
    EXPECT_THAT(memory_error(plan, graphs, memory), HasSubstr("is not done"));
  }
}

// Mutant: what is recomputed for one microbatch lies in the memory that all slots share, although
// its weight half comes after other microbatches were recomputed.
TEST(CheckMemory, FindsRecomputedValuesThatOthersOverwrite) {
  const Plan plan = plan_of("zbv", pipeline(2, 0, 8), 2, "", true);
  const GraphPlan graphs = plan_graphs(plan);
  FakeMemory memory(graphs);
  EXPECT_EQ(memory_error(plan, graphs, memory), "");
  const AddressRange shared{reinterpret_cast<const void*>(i64{1} << 40), 4096};
  for (auto& slots : memory.all()) {
    for (auto& slot : slots) slot[1].recomputed = {shared};
  }
  EXPECT_THAT(memory_error(plan, graphs, memory), HasSubstr("that are still to be read"));
}

// Mutant: a message reads the slot in which its tensors were computed. A slow peer has not taken
// them when the slot gets its next microbatch.
TEST(CheckMemory, FindsWhatIsOverwrittenWhileItIsSent) {
  const Plan plan = plan_of("1f1b", pipeline(2, 1, 8), 2);
  const GraphPlan graphs = plan_graphs(plan);
  FakeMemory memory(graphs);
  EXPECT_EQ(memory_error(plan, graphs, memory, Sent::copied), "");
  const std::string error = memory_error(plan, graphs, memory, Sent::in_place);
  EXPECT_THAT(error, HasSubstr("\"segment 0 slot 0 graph 1\" writes"));
  EXPECT_THAT(error, HasSubstr("where \"exchange"));
}

}  // namespace graph_plan_test
}  // namespace tessera

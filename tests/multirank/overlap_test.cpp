// Forward and backward passes in pairs: every bit is that of the run without overlap, and exchanges
// of experts are under way while the other pass computes.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>

#include "kernel/dry/dry_rank.hpp"
#include "kernel/planner/report.hpp"
#include "kernel/schedule/draw.hpp"
#include "kernel/train/execution/train_step.hpp"
#include "kernel/train/setup/make_rank.hpp"
#include "kernel/train/setup/placed_model.hpp"
#include "replayed_rows_support.hpp"

namespace tessera::testing {
namespace overlap_test {

using ::testing::Each;
using ::testing::Gt;

const std::string kOn = "schedule.overlap=true";
const std::string kRows = "parallel.sequence_parallel=true";
const std::string kSequential = "schedule.type=\"sequential\"";
Sets moe(const Sets& more = {}) {
  return testing::moe(with({"parallel.expert=2", "batch.micro=1"}, more));
}
Sets graphs(const std::string& scopes = "") {
  return {"graph.type=\"partial\"", fmt::format("graph.scope=[{}]", scopes)};
}

struct Row {
  std::string name;
  Sets sets;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

std::vector<Row> rows() {
  const std::string routing = "\"attn\", \"moe_router\", \"moe_preprocess\"";
  const Sets full = {"recompute.mode=\"full\""};
  const Sets interleaved = with(kFourStages, {"schedule.chunks=2"});
  return {
      {"dense_sequential", {kSequential}},
      {"dense_1f1b_pp2", pipeline("1f1b")},
      {"dense_1f1b_pp2_tp2_sp", pipeline("1f1b", {"parallel.tensor=2", kRows})},
      {"dense_1f1b_pp2_graphs", with(pipeline("1f1b"), graphs("\"attn\""))},
      {"dense_interleaved", pipeline("interleaved_1f1b", interleaved)},
      {"dense_interleaved_one_rank", {"schedule.type=\"interleaved_1f1b\"", "batch.micro=1"}},
      {"dense_dualpipe_v_tp2", pipeline("dualpipe_v", with(kFourStages, {"parallel.tensor=2"}))},
      {"moe_sequential", moe({kSequential})},
      {"moe_1f1b_pp2", moe(pipeline("1f1b"))},
      {"moe_1f1b_pp2_recomputed", moe(pipeline("1f1b", full))},
      {"moe_1f1b_pp2_graphs", with(moe(pipeline("1f1b")), graphs(routing))},
      {"moe_1f1b_pp2_distributed", moe(pipeline("1f1b", {"optimizer.type=\"distributed\""}))},
      {"moe_interleaved", moe(pipeline("interleaved_1f1b", interleaved))},
      {"moe_dualpipe_v", moe(pipeline("dualpipe_v", kFourStages))},
      {"moe_recomputed", moe(with(full, {kSequential}))},
      {"moe_parts_recomputed",
       moe({kSequential,
            "recompute.mode=\"selective\"",
            "recompute.scopes=[\"moe_dispatch\", \"moe_experts\", \"moe_combine\"]"})},
      {"moe_dualpipe_v_recomputed", moe(pipeline("dualpipe_v", with(kFourStages, full)))},
      {"moe_allgather", moe({kSequential, "model.block.mlp.dispatcher.type=\"allgather\""})},
      {"moe_etp2", moe({kSequential, "parallel.expert_tensor=2"})},
      {"moe_tp2_sp_etp1", moe({"parallel.tensor=2", kRows, "parallel.expert_tensor=1"})},
      {"moe_shared", moe({kSequential, "model.block.mlp.shared_ffn=12"})},
      {"moe_shared_overlap_1f1b_pp2",
       moe(pipeline("1f1b",
                    {"model.block.mlp.shared_ffn=12", "model.block.mlp.shared_overlap=true"}))},
      {"moe_balanced",
       moe({kSequential,
            "model.block.mlp.router.score=\"sigmoid\"",
            "model.block.mlp.router.bias_rate=0.05",
            "model.block.mlp.global_loss=0.1",
            "model.block.mlp.z_loss=0.01"})},
      {"moe_distributed", moe({kSequential, "optimizer.type=\"distributed\""})},
      {"moe_pattern",
       with(moe({kSequential}),
            {"model.pattern=\"dense sparse\"",
             "model.blocks.dense.mlp.type=\"mlp\"",
             "model.blocks.sparse.mlp.top_k=2"})},
      {"moe_graphs", with(moe({kSequential}), graphs(routing))},
      {"moe_graphs_all", with(moe({kSequential}), graphs())},
      {"moe_graphs_recomputed", with(moe(with(full, {kSequential})), graphs(routing))},
      {"moe_graphs_checked",
       with(moe({kSequential}), with(graphs(routing), {"check.graphs_every=1"}))},
      {"moe_graphs_interleaved", with(moe(pipeline("interleaved_1f1b", interleaved)), graphs())},
      {"moe_padded", moe(with(kPadded, {kSequential}))},
      {"moe_padded_graphs", with(moe(with(kPadded, {kSequential})), graphs())},
      {"moe_padded_graphs_of_routing", with(moe(with(kPadded, {kSequential})), graphs(routing))},
      {"moe_expert_choice_graphs", with(moe(with(kExpertChoice, {kSequential})), graphs())},
      {"moe_cpu_bf16", moe({kSequential, "device.type=\"cpu\"", "precision.compute=\"bf16\""})},
  };
}

class Overlapped : public ::testing::TestWithParam<Row> {};

TEST_P(Overlapped, HasTheBitsOfTheRunWithoutOverlap) {
  const Sets& sets = GetParam().sets;
  const Training apart = train(tiny_config(), sets, {.steps = 3});
  // Runs in order, then delayed and reordered as far as events allow.
  for (const u64 seed : {0, 1, 2}) {
    SCOPED_TRACE(seed);
    const Training pairs =
        train(tiny_config(), with(sets, {kOn}), {.steps = 3, .deferred_seed = seed});
    EXPECT_EQ(pairs.losses, apart.losses);
    EXPECT_EQ(pairs.norms, apart.norms);
    EXPECT_TRUE(pairs.gradients == apart.gradients);
    EXPECT_TRUE(pairs.parameters == apart.parameters);
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, Overlapped, ::testing::ValuesIn(rows()), [](const auto& info) {
  return info.param.name;
});

// Products of matrices that are launched while each exchange of rows is under way, in the second
// step of rank 0 of two that share the experts, which nothing runs.
std::vector<int> products_meanwhile(const Sets& sets) {
  const Resolved config = resolve(Config::parse(tiny_config(), "test", moe(sets)), plugins());
  const RunSetup setup = derive_setup(config, plugins(), 2);
  std::map<u64, int> under_way;
  std::vector<int> found;
  DryEvents events;
  events.launched = [&](const Kernel& kernel, const void*) {
    if (kernel.operation != "matmul" && !kernel.operation.starts_with("grouped_")) return;
    for (auto& [id, products] : under_way) ++products;
  };
  events.collectives.started = [&](u64 id, const GroupSpec& group, const Collective& collective) {
    const bool rows = group.name.starts_with("etp-ep") || group.name.starts_with("ep");
    if (rows && collective.kind == CollectiveKind::exchange) under_way[id] = 0;
  };
  events.collectives.waited = [&](u64 id) {
    const auto of = under_way.find(id);
    if (of == under_way.end()) return;
    found.push_back(of->second);
    under_way.erase(of);
  };
  const RankSpec spec = rank_spec_of(setup);
  const Rank rank = dry_rank(setup.layout, 0, make_device(spec, {}), std::move(events));
  PlacedModel model(rank, setup);
  TrainStep step(model);
  found.clear();
  step.run();
  return found;
}

TEST(Pairs, ComputeWhileRowsAreUnderWay) {
  const Sets two = {kSequential, "batch.global=4"};  // microbatches of each rank: one pair
  EXPECT_THAT(products_meanwhile(two), Each(0));
  const std::vector<int> products = products_meanwhile(with(two, {kOn}));
  const int layers = 2, exchanges = 4;  // of a layer and microbatch, forward and backward
  EXPECT_EQ(products.size(), 2 * layers * exchanges);
  EXPECT_EQ(std::ranges::count_if(products, [](int count) { return count > 0; }),
            layers * exchanges)
      << "all of the pair";
}

TEST(Pairs, AreRefusedBySchedulesThatHaveNone) {
  for (const std::string type : {"gpipe", "zb_h1", "zbv"}) {
    const Sets sets = {fmt::format("schedule.type=\"{}\"", type), kOn};
    EXPECT_THAT([&] { resolve(Config::parse(tiny_config(), "test", sets), plugins()); },
                ::testing::ThrowsMessage<ConfigError>(
                    ::testing::HasSubstr("[schedule] unknown key \"overlap\"")));
  }
}

Prediction planned(const Sets& sets) {
  const Resolved config = resolve(Config::parse(tiny_config(), "test", moe(sets)), plugins());
  PlanArguments arguments;
  arguments.config = &config;
  arguments.plugins = &plugins();
  arguments.world = world_size(config.run);
  arguments.hardware.inside.bandwidth = 1e8;  // an exchange takes about as long as a layer computes
  return predict(arguments);
}

// What an exchange costs is hidden, for the activations of one more microbatch.
TEST(Pairs, ArePlannedWithTheirGainAndTheirMemory) {
  const Prediction apart = planned({kSequential}), pairs = planned({kSequential, kOn});
  EXPECT_LT(pairs.step_seconds, 0.98 * apart.step_seconds);
  EXPECT_EQ(pairs.flops, apart.flops);
  const StepMeter::Cost &hides = pairs.classes.front().total, &waits = apart.classes.front().total;
  EXPECT_DOUBLE_EQ(hides.inside, waits.inside);
  EXPECT_LT(hides.waited, 0.8 * waits.waited);
  EXPECT_THAT(report_text(pairs),
              ::testing::ContainsRegex("collectives of phases .*% of it hidden"));
  const auto activations = [](const Prediction& p) {
    return p.classes.front().memory.peak[static_cast<std::size_t>(Category::activations)];
  };
  EXPECT_GT(activations(pairs), activations(apart));
  EXPECT_LT(activations(pairs), 2.2 * activations(apart));
  EXPECT_EQ(pairs.timeline.live({.microbatches = 4})[0][0], 2);

  // Dispatch and combine of two layers, forward and backward, of each microbatch.
  EXPECT_EQ(pairs.timeline.under_way[0].size(), 2 * 2 * 2 * pairs.microbatches);
  EXPECT_THAT(draw_svg(pairs.timeline, 1, "pairs", kPredictedTimes),
              ::testing::AllOf(::testing::HasSubstr("rows under way, forward: "),
                               ::testing::HasSubstr(">rows under way, backward</text>")));
}

}  // namespace overlap_test
}  // namespace tessera::testing

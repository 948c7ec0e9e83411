// Replayed steps have the bits of eager ones, under every layout.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>

#include "forwarding_dispatcher_support.hpp"
#include "kernel/dry/dry_rank.hpp"
#include "kernel/model/host_values.hpp"
#include "kernel/train/execution/bundle_trace.hpp"
#include "replayed_rows_support.hpp"
#include "tessera/ops.hpp"
#include "trainer_support.hpp"

namespace tessera::testing {
namespace graphs_test {

using ::testing::ElementsAre;

const std::string kRows = "parallel.sequence_parallel=true";
const std::string kCpu = "device.type=\"cpu\"";
const std::string kDistributed = "optimizer.type=\"distributed\"";
const std::string kRecompute = "recompute.mode=\"full\"";

// Captures these scopes; all phases of fixed shapes where there are none.
Sets partial(const std::string& scopes = "", const std::string& join = "layer") {
  return {"graph.type=\"partial\"",
          fmt::format("graph.scope=[{}]", scopes),
          fmt::format("graph.join=\"{}\"", join)};
}
const std::string kBlocks = "\"attn\", \"mlp\"";
const std::string kExperts = "\"moe_dispatch\", \"moe_experts\", \"moe_combine\"";
const std::string kRouting = "\"attn\", \"moe_router\", \"moe_preprocess\"";

// All of them read what the router finds, and so does the dispatcher `allgather`.
const std::string kReaders = "\"moe_router\", \"moe_preprocess\", \"shared_experts\"";
const Sets kGathered = {"parallel.expert=2", "model.block.mlp.dispatcher.type=\"allgather\""};

const Sets kShared = {"model.block.mlp.shared_ffn=12", "model.block.mlp.shared_gate=true"};

// Every step also runs its first microbatch eagerly and compares.
const Sets kChecked = {"check.graphs_every=1"};

struct Row {
  std::string name;
  Sets layout;
  Sets graphs;
};

std::vector<Row> rows() {
  const Sets selective = {"recompute.mode=\"selective\"", "recompute.scopes=[\"attn\"]"};
  const Sets ep2 = {"parallel.expert=2"};
  return {
      {"all", {}, partial()},
      {"attn", {}, partial("\"attn\"")},
      {"blocks", {}, partial(kBlocks)},
      {"blocks_by_chunk", {}, partial(kBlocks, "chunk")},
      {"one_graph", {}, partial("", "chunk")},
      {"cpu", {kCpu}, partial()},
      {"cpu_bf16", {kCpu, "precision.compute=\"bf16\""}, partial()},
      {"fp16", {"precision.compute=\"fp16\"", "precision.loss_scale_start=65536"}, partial()},
      {"tp2", {"parallel.tensor=2"}, partial()},
      {"cpu_tp2_sp", {kCpu, "parallel.tensor=2", kRows}, partial(kBlocks)},
      {"cp2", {"parallel.context=2"}, partial()},
      {"dp2_buckets", {"parallel.data=2", "parallel.bucket_elements=1000"}, partial("", "chunk")},
      {"dp2_distributed",
       {"parallel.data=2", "parallel.bucket_elements=1000", kDistributed},
       partial("", "chunk")},
      {"dp2_distributed_blocks", {"parallel.data=2", kDistributed}, partial(kBlocks)},
      {"recompute", {kRecompute}, partial()},
      {"recompute_by_chunk", {kRecompute}, partial(kBlocks, "chunk")},
      {"recompute_half_of_a_layer", {kRecompute}, partial("\"attn\"")},
      {"recompute_other_half", {kRecompute}, partial("\"mlp\"")},
      {"recompute_what_is_not_captured", selective, partial("\"mlp\"")},
      {"recompute_what_is_captured", selective, partial("\"attn\"")},
      {"pp2_gpipe", pipeline("gpipe"), partial()},
      {"pp2_1f1b", pipeline("1f1b"), partial(kBlocks)},
      {"pp2_1f1b_all", pipeline("1f1b", {kRecompute}), partial("", "chunk")},
      {"pp2_interleaved",
       pipeline("interleaved_1f1b", with(kFourStages, {"schedule.chunks=2"})),
       partial()},
      {"pp2_zbv", pipeline("zbv", kFourStages), partial()},
      {"pp2_zbv_attn", pipeline("zbv", kFourStages), partial("\"attn\"")},
      {"pp2_zbv_recompute", pipeline("zbv", with(kFourStages, {kRecompute})), partial()},
      {"cpu_pp2_tp2_sp_dualpipe_v",
       pipeline("dualpipe_v", with(kFourStages, {kCpu, "parallel.tensor=2", kRows})),
       partial(kBlocks)},
      {"moe", moe(), partial()},
      {"moe_routing", moe(), partial(kRouting)},
      {"moe_ep2_routing", moe(ep2), partial(kRouting)},
      {"moe_ep2_all", moe(ep2), partial()},
      {"moe_ep2_allgather",
       moe(with(ep2, {"model.block.mlp.dispatcher.type=\"allgather\""})),
       partial()},
      {"moe_ep2_recompute", moe(with(ep2, {kRecompute})), partial(kRouting)},
      {"moe_tp2_sp_ep2", moe({"parallel.tensor=2", kRows, "parallel.expert=2"}), partial()},
      {"moe_pp2_zbv_ep2", moe(pipeline("zbv", with(kFourStages, ep2))), partial()},
      {"moe_balanced", moe(kBalanced), partial(kRouting)},
      {"moe_balanced_ep2_tp2", moe(with(kBalanced, with(ep2, {"parallel.tensor=2"}))), partial()},
      {"moe_shared", moe(kShared), partial(kRouting + ", \"shared_experts\"")},
      {"moe_shared_ep2_allgather", moe(with(kShared, kGathered)), partial(kReaders)},
      {"cpu_bf16_moe_shared_ep2_allgather",
       moe(with(kShared, with(kGathered, {kCpu, "precision.compute=\"bf16\""}))),
       partial(kReaders)},
      {"moe_padded_ep2", moe(with(kPadded, ep2)), partial()},
      {"moe_padded_shared_overlap_ep2_recompute",
       moe(with(kPadded,
                with(kShared, with(ep2, {"model.block.mlp.shared_overlap=true", kRecompute})))),
       partial()},
      {"moe_expert_choice", moe(kExpertChoice), partial(kExperts)},
      {"moe_expert_choice_ep2", moe(with(kExpertChoice, ep2)), partial(kExperts)},
      {"moe_expert_choice_ep2_all", moe(with(kExpertChoice, ep2)), partial("", "chunk")},
      {"moe_expert_choice_etp2_ep2_recompute",
       moe(with(kExpertChoice, with(ep2, {"parallel.expert_tensor=2", kRecompute}))),
       partial()},
      {"moe_expert_choice_ep2_allgather",
       moe(with(kExpertChoice, with(ep2, {"model.block.mlp.dispatcher.type=\"allgather\""}))),
       partial()},
      {"moe_expert_choice_tp2_sp_ep2_etp1_padded",
       moe(with(kExpertChoice,
                with(ep2,
                     {"parallel.tensor=2",
                      kRows,
                      "parallel.expert_tensor=1",
                      "model.block.mlp.pad_to_capacity=true"}))),
       partial()},
      {"moe_expert_choice_pp2_zbv_ep2",
       moe(pipeline("zbv", with(kFourStages, with(kExpertChoice, ep2)))),
       partial()},
      {"moe_pattern",
       {"model.pattern=\"dense sparse\"",
        "model.blocks.dense.mlp.ffn=12",
        "model.blocks.sparse.mlp.type=\"moe\"",
        "model.blocks.sparse.mlp.experts=4"},
       partial()},
      {"checked", {}, with(partial(), kChecked)},
      {"checked_moe_balanced", moe(with(kBalanced, ep2)), with(partial(kRouting), kChecked)},
      {"checked_moe_padded",
       moe(with(kPadded, kShared)),
       with(partial("\"attn\", \"moe_dispatch\", \"moe_experts\""), kChecked)},
      {"checked_moe_expert_choice_ep2",
       moe(with(kExpertChoice, ep2)),
       with(partial(kExperts), kChecked)},
      {"checked_pp2_zbv_recompute",
       pipeline("zbv", with(kFourStages, {kRecompute})),
       with(partial(), kChecked)},
      {"checked_moe_shared_ep2_allgather",
       moe(with(kShared, kGathered)),
       with(partial(kReaders), kChecked)},
      {"checked_moe_tp2_ep2",
       moe({"parallel.tensor=2", "parallel.expert=2"}),
       with(partial(kRouting), kChecked)},
      {"cpu_moe_distributed_dp2_ep2",
       moe({kCpu, "parallel.data=2", "parallel.expert=2", kDistributed}),
       partial(kRouting)},
  };
}

void expect_equal(const Training& got, const Training& want) {
  EXPECT_EQ(got.losses, want.losses);
  EXPECT_EQ(got.norms, want.norms);
  EXPECT_EQ(got.loss_scales, want.loss_scales);
  EXPECT_TRUE(got.gradients == want.gradients);
  EXPECT_TRUE(got.parameters == want.parameters);
}

// A rank may hold nothing that is captured: the embedding, or the head.
Training train_with_graphs(const Sets& sets, u64 seed = 0) {
  std::atomic<int> graphs = 0;
  TrainOptions options{.steps = 3, .deferred_seed = seed};
  options.at_end = [&](RankRun& run) {
    if (run.step().replay().ranges() != nullptr)
      graphs += run.step().replay().ranges()->use().graphs;
  };
  Training training = train(tiny_config(), sets, options);
  EXPECT_GT(graphs, 0);
  return training;
}

class Replayed : public ::testing::TestWithParam<Row> {};

TEST_P(Replayed, HasTheBitsOfTheEagerRun) {
  const Row& row = GetParam();
  const Training eager = train(tiny_config(), row.layout, {.steps = 3});
  const Sets sets = with(row.layout, row.graphs);
  // Runs in order, then delayed and reordered as far as events allow.
  for (const u64 seed : {0, 1, 2}) {
    SCOPED_TRACE(seed);
    expect_equal(train_with_graphs(sets, seed), eager);
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, Replayed, ::testing::ValuesIn(rows()), [](const auto& info) {
  return info.param.name;
});

// Carries rows where the router sent them when the host code last ran; what a graph replays is then
// what warm-up saw.
class FrozenDispatcher final : public ForwardingDispatcher {
 public:
  struct Config {
    i64 experts = 0, top_k = 0, rows_per_expert = 0;
    bool frozen = false;
    Component<TokenDispatcher> inner{"alltoall", {}};
    static void describe(Schema<Config>& s) {
      s.field("experts", &Config::experts, "experts").given();
      s.field("top_k", &Config::top_k, "choices").given();
      s.field("rows_per_expert", &Config::rows_per_expert, "places").given();
      s.field("frozen", &Config::frozen, "whether it makes the mistake");
      s.slot("inner", &Config::inner, "what does the work");
    }
  };
  FrozenDispatcher(const Config& config, BuildContext& build)
      : ForwardingDispatcher(build.child("inner",
                                         config.inner,
                                         {{"experts", config.experts},
                                          {"top_k", config.top_k},
                                          {"rows_per_expert", config.rows_per_expert}})),
        frozen_(config.frozen) {}

  ExpertRows do_preprocess(Context& cx,
                           Bundle& bundle,
                           const Tensor& x,
                           const Routing& routing) const override {
    if (!frozen_) return ForwardingDispatcher::do_preprocess(cx, bundle, x, routing);
    if (!seen_.defined()) {
      seen_ = Tensor::allocate(*cx.device,
                               cx.device->pool(),
                               *cx.stream,
                               routing.experts.shape(),
                               routing.experts.dtype(),
                               Category::workspace);
    }
    if (!cx.device->capturing()) {
      CopyArgs copy{routing.experts.arg(), seen_.arg()};
      ops::run(cx, copy);
    }
    return ForwardingDispatcher::do_preprocess(cx, bundle, x, {seen_, routing.weights});
  }

 private:
  bool frozen_;
  mutable Tensor seen_;
};

// Which rows an expert takes is new in every microbatch; that every expert takes equally many does
// not hide rows that stay those of the capture.
TEST(ReplayMutants, RowsFrozenAtCaptureAreFound) {
  const auto host = load_plugins();
  host->add_builtin([](Registrar& registrar) {
    registrar.add<TokenDispatcher, FrozenDispatcher>("frozen", "may keep what it saw first");
  });
  const auto training = [&](const Sets& more) {
    const Sets sets = moe(
        with(kExpertChoice, {"parallel.expert=2", "model.block.mlp.dispatcher.type=\"frozen\""}));
    return train(tiny_config(), with(sets, more), {.steps = 3, .host = host.get()});
  };
  const std::string mistake = "model.block.mlp.dispatcher.frozen=true";
  const Training eager = training({});
  for (const Sets& graphs : {partial(), Sets{"graph.type=\"full_iteration\""}}) {
    expect_equal(training(graphs), eager);
    expect_equal(training({mistake}), eager);  // nothing is captured
    EXPECT_NE(training(with(graphs, {mistake})).losses, eager.losses);
  }
}

// What a run captures is what the planner says, on every rank.
TEST(PlannedGraphs, AreThoseOfARun) {
  const std::vector<Sets> layouts = {
      partial(),
      with(pipeline("1f1b", {kRecompute}), partial(kBlocks, "chunk")),
      with(pipeline("zbv", kFourStages), partial()),
      with(moe({"parallel.expert=2"}), partial(kRouting)),
      with(moe(with(kExpertChoice, {"parallel.expert=2"})), partial(kExperts))};
  for (const Sets& sets : layouts) {
    on_ranks(tiny_config(), sets, [](RankRun& run, Store*) {
      run.step().prepare();
      const GraphUse real = run.step().replay().ranges()->use();
      const Rank dry = dry_rank(run.setup().layout, run.mesh().rank(), run.rank().device);
      PlacedModel model(dry, run.setup());
      TrainStep step(model);
      const GraphUse planned = graph_use_of(step, dry);
      EXPECT_EQ(planned.segments, real.segments);
      EXPECT_EQ(planned.graphs, real.graphs);
      EXPECT_EQ(planned.slots, real.slots);
      EXPECT_EQ(planned.input_bytes, real.input_bytes);
      EXPECT_EQ(planned.slot_bytes, real.slot_bytes);
      EXPECT_EQ(planned.scratch_bytes, real.scratch_bytes);
      EXPECT_GT(planned.replayed, 0);
      EXPECT_GT(planned.launches, planned.replayed);
    });
  }
}

// What crosses from the captured routing to the dispatch, and what a graph copies in.
TEST(Boundaries, HoldWhatLaterPhasesRead) {
  on_ranks(tiny_config(), moe({"parallel.expert=2"}), [](RankRun& run, Store*) {
    const SampleReader reader(*run.setup().dataset, run.parts(), run.setup().batch, run.mesh());
    const TracedChunk traced = trace_bundles(run.rank(), run.setup(), reader.inputs()).at(0);
    const std::vector<PhaseInfo>& infos = run.model().chunks()[0].infos();
    const auto first = [&](std::string_view scope) {
      return std::ranges::find(infos, scope, &PhaseInfo::scope)->phase;
    };
    const auto names = [&](auto&& has) {
      std::vector<std::string> found;
      for (std::size_t i = 0; i < run.parts().slots().size(); ++i) {
        if (has(i)) found.push_back(run.parts().slots()[i]);
      }
      std::ranges::sort(found);
      return found;
    };
    const std::vector<TracedValue>& left = traced.before(first("moe_dispatch"));
    const std::vector<TracedValue>& inputs = traced.before(0);
    EXPECT_THAT(
        names([&](std::size_t i) { return left[i].defined && !inputs[i].defined; }),
        ElementsAre("hidden", "moe.counts", "moe.inverse", "moe.order", "moe.weights", "residual"));
    // Gradients come back for what is differentiated.
    EXPECT_THAT(names([&](std::size_t i) { return left[i].gradient; }),
                ElementsAre("hidden", "moe.weights", "residual"));
    const auto reads = traced.reads(first("attn"), first("moe_preprocess"));
    EXPECT_THAT(names([&](std::size_t i) { return reads[i]; }), ElementsAre("hidden", "row_ids"));
    const auto unpermute = traced.reads(first("moe_unpermute"), first("moe_unpermute"));
    EXPECT_THAT(names([&](std::size_t i) { return unpermute[i]; }),
                ElementsAre("hidden", "moe.inverse", "moe.order", "residual", "row_ids"));
  });
}

// What crosses where a graph ends before the first phase of `scope`.
std::vector<std::string> held_before(std::string_view scope, const Sets& sets) {
  std::vector<std::string> held;
  on_ranks(tiny_config(), sets, [&](RankRun& run, Store*) {
    if (run.mesh().rank() != 0) return;
    const SampleReader reader(*run.setup().dataset, run.parts(), run.setup().batch, run.mesh());
    const TracedChunk traced = trace_bundles(run.rank(), run.setup(), reader.inputs()).at(0);
    const std::vector<PhaseInfo>& infos = run.model().chunks()[0].infos();
    const int phase = std::ranges::find(infos, scope, &PhaseInfo::scope)->phase;
    const std::vector<TracedValue>&inputs = traced.before(0), &left = traced.before(phase);
    for (std::size_t i = 0; i < run.parts().slots().size(); ++i) {
      if (left[i].defined && !inputs[i].defined) held.push_back(run.parts().slots()[i]);
    }
  });
  std::ranges::sort(held);
  return held;
}

TEST(Boundaries, DependOnWhereTheGraphEnds) {
  const Sets plain = moe({"parallel.expert=2"}), shared = moe(with(kShared, {"parallel.expert=2"}));
  for (const Sets& sets : {plain, shared}) {
    EXPECT_THAT(held_before("moe_router", sets), ElementsAre("hidden"));
  }
  EXPECT_THAT(held_before("moe_preprocess", plain),
              ElementsAre("hidden", "moe.experts", "moe.weights", "residual"));
  // The input of the shared expert goes past the others.
  EXPECT_THAT(held_before("moe_preprocess", shared),
              ElementsAre("hidden", "moe.experts", "moe.shared", "moe.weights", "residual"));
  EXPECT_THAT(held_before("moe_dispatch", shared),
              ElementsAre("hidden",
                          "moe.counts",
                          "moe.inverse",
                          "moe.order",
                          "moe.shared",
                          "moe.weights",
                          "residual"));
}

// A layer's input is where the graph of the layer before has left it, and so is the gradient of its
// result.
TEST(SegmentInputs, AreCopiedWhereTheyAreNotThereAlready) {
  const auto copied = [](const std::string& scopes) {
    i64 bytes = 0;
    on_ranks(tiny_config(), partial(scopes), [&](RankRun& run, Store*) {
      run.step().prepare();
      const GraphUse use = run.step().replay().ranges()->use();
      bytes = use.input_bytes / use.slots;
    });
    return bytes;
  };
  constexpr i64 kRows = 2 * 8, kHidden = kRows * 16 * 4, kRowIds = kRows * 8;
  EXPECT_EQ(copied(kBlocks), 2 * kHidden + kRowIds);
  EXPECT_EQ(copied("\"attn\""), 2 * 2 * kHidden + kRowIds);
}

// Warm-up and capture run every phase, and leave no trace.
TEST(Preparing, ChangesNoValue) {
  for (const Sets& sets : {partial(), with(moe({"parallel.expert=2"}), partial())}) {
    on_ranks(tiny_config(), sets, [](RankRun& run, Store*) {
      const auto values = [&] {
        std::vector<std::vector<double>> all;
        for (const auto& entry : run.parts().parameters()) {
          all.push_back(read_values(run.device(), entry.parameter->grad));
          all.push_back(read_values(run.device(), entry.parameter->compute));
        }
        return all;
      };
      const auto before = values();
      run.step().prepare();
      EXPECT_EQ(values(), before);
      EXPECT_EQ(run.step().state().steps(), 0);
      EXPECT_TRUE(run.step().losses().empty());
    });
  }
}

// A run with validations that is stopped and goes on, with graphs and without.
TEST(ReplayedRun, ValidatesAndResumesWithTheSameBits) {
  const TestFolder folder;
  const auto run = [&](const std::string& name, const Sets& sets) {
    const Sets all = with({fmt::format("run.out=\"{}\"", folder.at(name)),
                           "run.steps=8",
                           "checkpoint.every_steps=4",
                           "validation.every_steps=2",
                           "data.validation=0.1",
                           "observers.metrics.type=\"metrics\"",
                           "parallel.data=2"},
                          sets);
    run_trainer({tiny_config(), all, 5});
    run_trainer({tiny_config(), all, 0});
    return std::pair(metric_of(folder.at(name), "loss"), metric_of(folder.at(name), "val_loss"));
  };
  const auto eager = run("eager", {});
  EXPECT_EQ(eager.first.size(), 8U);
  EXPECT_GE(eager.second.size(), 4U);
  EXPECT_EQ(run("replayed", partial()), eager);
  EXPECT_EQ(run("whole", {"graph.type=\"full_iteration\""}), eager);
  EXPECT_EQ(run("whole_sharded", {"graph.type=\"full_iteration\"", kDistributed}), eager);
}

}  // namespace graphs_test
}  // namespace tessera::testing

// What the planner says before a run is what the run does: memory, messages, bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <tuple>

#include "invariant_support.hpp"
#include "kernel/checkpoint/rank_part.hpp"
#include "kernel/planner/group_names.hpp"
#include "kernel/planner/optimizer_ranges.hpp"
#include "kernel/planner/report.hpp"
#include "kernel/train/run/training_state.hpp"
#include "plan_support.hpp"
#include "training_support.hpp"

namespace tessera::testing {
namespace plan_test {

using namespace plans;

using Counted = std::map<std::tuple<std::string, std::string>, std::pair<i64, i64>>;

struct Measured {
  i64 pipeline = 0, context = 0;
  MemoryStats memory;
  Counted counted;
};

std::map<i64, Measured> measure(const Sets& sets) {
  std::map<i64, Measured> ranks;
  std::mutex mutex;
  TrainOptions options;
  options.at_end = [&](RankRun& run) {
    const Mesh& mesh = run.mesh();
    run.step().parameters_changed();  // as after a step: train() has gathered them
    for (const auto& group : mesh.all()) group->reset_counters();
    run.step().run();
    Measured measured{
        mesh.coordinate(Axis::pipeline), mesh.coordinate(Axis::context), run.device().memory(), {}};
    for (const auto& group : mesh.all()) {
      for (int kind = 0; kind <= static_cast<int>(CollectiveKind::barrier); ++kind) {
        const auto& entry = group->counters().kinds[kind];
        if (entry.bytes == 0) continue;
        const std::string axes = group->name().substr(0, group->name().find('['));
        const std::string name(collective_name(static_cast<CollectiveKind>(kind)));
        auto& [calls, bytes] = measured.counted[{shown_group(axes, mesh.ranks()), name}];
        calls += entry.calls;
        bytes += entry.bytes;
      }
    }
    const std::lock_guard lock(mutex);
    ranks[mesh.rank()] = measured;
  };
  train(tiny_config(), with_model(sets), options);
  return ranks;
}

const Representative& of(const Prediction& prediction, const Measured& rank) {
  for (const Representative& r : prediction.classes) {
    if (r.of.pipeline == rank.pipeline && r.of.context == rank.context) return r;
  }
  throw std::runtime_error("no class for this rank");
}

Counted counted(const Representative& r) {
  Counted all;
  for (const Traffic& t : r.traffic) {  // groups of the same ranks have one row a lane
    auto& [calls, bytes] = all[{t.axes, std::string(collective_name(t.kind))}];
    calls += t.calls;
    bytes += t.bytes;
  }
  return all;
}

struct Layout {
  std::string name;
  Sets sets;
};

class Planned : public ::testing::TestWithParam<Layout> {};

TEST_P(Planned, MemoryAndMessagesAreThoseOfTheRun) {
  const Prediction prediction = predicted(GetParam().sets);
  const auto ranks = measure(GetParam().sets);
  ASSERT_EQ(static_cast<i64>(ranks.size()), prediction.layout.world);
  for (const auto& [rank, measured] : ranks) {
    SCOPED_TRACE(fmt::format("rank {}", rank));
    const Representative& r = of(prediction, measured);
    const auto near = [](i64 expected, i64 actual) {
      return std::abs(static_cast<double>(expected - actual)) <= 0.05 * static_cast<double>(actual);
    };
    EXPECT_PRED2(near, r.memory.total_peak, measured.memory.total_peak);
    for (int c = 0; c < kCategories; ++c) {
      SCOPED_TRACE(category_name(static_cast<Category>(c)));
      const auto at = static_cast<std::size_t>(c);
      EXPECT_PRED2(near, r.memory.peak[at], measured.memory.peak[at]);
    }
    // What a rank sends of blocks of the norm depends on its shard: a class has that of its first.
    Counted expected = counted(r), actual = measured.counted;
    if (rank != r.of.first) {
      const std::string replicas = shown_group("dp-cp", RankGenerator(prediction.layout));
      expected.erase({replicas, "exchange"});
      actual.erase({replicas, "exchange"});
    }
    EXPECT_EQ(expected, actual);
  }
}

const std::string kMicro1 = "batch.micro=1";
const std::string kContext = "model.block.attention.context=";

INSTANTIATE_TEST_SUITE_P(
    Layouts,
    Planned,
    ::testing::Values(
        Layout{"single", {}},
        Layout{"micro1", {"batch.micro=1"}},
        Layout{"micro8", {"batch.micro=8"}},
        Layout{"recompute", {"recompute.mode=\"full\""}},
        Layout{"tp2", {"parallel.tensor=2"}},
        Layout{"tp2_sp", {"parallel.tensor=2", kRows}},
        Layout{"dp2", {"parallel.data=2"}},
        Layout{"tp2_dp2", {"parallel.tensor=2", "parallel.data=2"}},
        Layout{"dp2_buckets", {"parallel.data=2", "parallel.bucket_elements=10000"}},
        Layout{"dp2_distributed", {"parallel.data=2", kDistributed}},
        Layout{"dp4_distributed_buckets",
               {"parallel.data=4", "parallel.bucket_elements=10000", kDistributed}},
        Layout{"dp2_distributed_bf16_gradients",
               {"parallel.data=2", "parallel.gradient_dtype=\"bf16\"", kDistributed}},
        Layout{"dp2_buckets_bf16_gradients",
               {"parallel.data=2",
                "parallel.bucket_elements=10000",
                "parallel.gradient_dtype=\"bf16\""}},
        Layout{"pp2_dp2_distributed",
               {"parallel.pipeline=2",
                "parallel.data=2",
                "schedule.type=\"1f1b\"",
                "parallel.bucket_elements=10000",
                kDistributed}},
        Layout{"tp2_muon", {"parallel.tensor=2", "optimizer.rule.type=\"muon\""}},
        Layout{"dp2_lion_distributed",
               {"parallel.data=2", "optimizer.rule.type=\"lion\"", kDistributed}},
        Layout{
            "tp2_narrow_moments",
            {"parallel.tensor=2", "optimizer.state_dtype=\"bf16\"", "optimizer.rule.beta2=0.95"}},
        Layout{"dp2_narrow_moments_distributed",
               {"parallel.data=2",
                "optimizer.state_dtype=\"bf16\"",
                "optimizer.rule.beta2=0.95",
                kDistributed}},
        Layout{"cp2", {"parallel.context=2"}},
        Layout{"tp2_dp2_skipping",
               {"parallel.tensor=2", "parallel.data=2", "check.on_bad_step=\"skip\""}},
        Layout{"pp2", {"parallel.pipeline=2", "schedule.type=\"1f1b\""}},
        Layout{"pp2_tp2", {"parallel.pipeline=2", "parallel.tensor=2", "schedule.type=\"1f1b\""}},
        Layout{"pp2_groups",
               {"parallel.pipeline=2",
                "schedule.type=\"1f1b\"",
                "optimizer.groups.head.match=\"head.*\"",
                "optimizer.groups.head.lr_scale=0.5"}},
        Layout{"pp2_interleaved",
               {"parallel.pipeline=2",
                "schedule.type=\"interleaved_1f1b\"",
                "schedule.chunks=2",
                "recompute.mode=\"selective\""}},
        Layout{"pp2_zbv", {"parallel.pipeline=2", "schedule.type=\"zbv\"", "batch.micro=1"}},
        Layout{"pp2_dp2", {"parallel.pipeline=2", "parallel.data=2", "schedule.type=\"1f1b\""}},
        Layout{"pp2_gpipe", {"parallel.pipeline=2", "schedule.type=\"gpipe\"", kMicro1}},
        Layout{
            "pp2_zbh1_full",
            {"parallel.pipeline=2", "schedule.type=\"zb_h1\"", kMicro1, "recompute.mode=\"full\""}},
        Layout{"pp2_dualpipe_v", {"parallel.pipeline=2", "schedule.type=\"dualpipe_v\"", kMicro1}},
        Layout{"pp4", {"parallel.pipeline=4", "schedule.type=\"1f1b\"", kMicro1}},
        Layout{"cp2_allgather", {"parallel.context=2", kContext + "\"allgather\""}},
        Layout{"cp2_all_to_all", {"parallel.context=2", kContext + "\"all_to_all\""}},
        Layout{"cp4", {"parallel.context=4"}},
        Layout{"tp2_cp2_sp_all_to_all",
               {"parallel.tensor=2", "parallel.context=2", kRows, kContext + "\"all_to_all\""}},
        Layout{"bf16_cp2", {"device.type=\"reference\"", kBf16, "parallel.context=2"}},
        Layout{"fp16_dp2_distributed",
               {"device.type=\"reference\"",
                "precision.compute=\"fp16\"",
                "parallel.data=2",
                kDistributed}},
        Layout{"bf16_pp2_tp2_sp",
               {"device.type=\"reference\"",
                kBf16,
                "parallel.pipeline=2",
                "parallel.tensor=2",
                "schedule.type=\"1f1b\"",
                kRows}},
        Layout{"prepared_dp2_buckets",
               {"device.type=\"cpu\"",
                kBf16,
                "precision.prepare_weights=true",
                kMicro1,
                "parallel.data=2",
                "parallel.bucket_elements=10000"}},
        Layout{"prepared_dp2_distributed",
               {"device.type=\"cpu\"",
                kBf16,
                "precision.prepare_weights=true",
                "batch.micro=4",
                "parallel.data=2",
                kDistributed}},
        Layout{"prepared_pp2_graphs",
               {"device.type=\"cpu\"",
                kBf16,
                "precision.prepare_weights=true",
                kMicro1,
                "parallel.pipeline=2",
                "schedule.type=\"1f1b\"",
                "graph.type=\"full_iteration\""}},
        Layout{"pp2_cp2",
               {"parallel.pipeline=2",
                "parallel.context=2",
                "schedule.type=\"zb_h1\"",
                "recompute.mode=\"selective\"",
                kMicro1}},
        Layout{"pairs", {kMicro1, "schedule.overlap=true"}},
        Layout{"pp2_pairs",
               {"parallel.pipeline=2", "schedule.type=\"1f1b\"", "schedule.overlap=true", kMicro1}},
        // Padding makes what experts get known beforehand.
        Layout{"ep2_padded_pairs",
               with({"parallel.expert=2", "schedule.overlap=true", kMicro1}, kPaddedExperts)},
        Layout{"padded_ep4_shared",
               with({"parallel.expert=4",
                     "model.block.mlp.shared_ffn=32",
                     "model.block.mlp.shared_overlap=true"},
                    kPaddedExperts)},
        Layout{"padded_tp2_ep2_etp2_allgather",
               with({"parallel.tensor=2",
                     "parallel.expert=2",
                     "model.block.mlp.dispatcher.type=\"allgather\""},
                    kPaddedExperts)},
        Layout{"expert_choice", kChosen},
        Layout{"expert_choice_dp2_ep2", with({"parallel.data=2", "parallel.expert=2"}, kChosen)},
        Layout{"expert_choice_etp2_graphs",
               with({"parallel.expert_tensor=2", "graph.type=\"partial\""}, kChosen)},
        Layout{"pp2_ep2_pattern",
               with({"parallel.pipeline=2",
                     "parallel.expert=2",
                     "schedule.type=\"1f1b\"",
                     "model.pattern=\"dense sparse*3\"",
                     "model.blocks.sparse.mlp.top_k=2",
                     "model.blocks.dense.mlp.type=\"mlp\""},
                    kPaddedExperts)}),
    [](const auto& info) { return info.param.name; });

// Replicas that own whole parameters hold unequally much. Here the third one has the embedding,
// whose state is twice as large as that of a matrix, and the planner plans it for all.
TEST(PlannedWhole, IsTheFullestReplica) {
  const Sets sets = {"parallel.data=4",
                     "model.layers=3",
                     "model.block.mlp.ffn=512",
                     "optimizer.rule.type=\"muon\"",
                     kDistributed};
  const Prediction prediction = predicted(sets);
  ASSERT_EQ(prediction.classes.size(), 1U);
  const MemoryStats& planned = prediction.classes[0].memory;
  const auto optimizer = static_cast<std::size_t>(Category::optimizer);
  const auto ranks = measure(sets);
  ASSERT_EQ(ranks.size(), 4U);
  double state = 0, total = 0;
  for (const auto& [rank, measured] : ranks) {
    state = std::max(state, static_cast<double>(measured.memory.peak[optimizer]));
    total = std::max(total, static_cast<double>(measured.memory.total_peak));
  }
  EXPECT_LT(1.1 * static_cast<double>(ranks.at(0).memory.peak[optimizer]), state)
      << "the first replica could stand for all";
  EXPECT_NEAR(static_cast<double>(planned.peak[optimizer]) / state, 1, 0.05);
  EXPECT_NEAR(static_cast<double>(planned.total_peak) / total, 1, 0.05);
}

// Bytes of what each rank would write of a checkpoint.
std::vector<i64> written(const Sets& sets) {
  std::vector<i64> bytes;
  std::mutex mutex;
  TrainOptions options;
  options.at_end = [&](RankRun& run) {
    const TrainingState state(run.model(), run.step());
    const i64 mine = RankPart(run.mesh(), state.tensors()).bytes();
    const std::lock_guard lock(mutex);
    bytes.push_back(mine);
  };
  train(tiny_config(), with_model(sets), options);
  return bytes;
}

// Replicas share out what they write of a checkpoint, unequally: of three the first writes most, of
// four the second, of three that have shards of the state the third. The largest copy is planned.
TEST(PlannedSnapshot, IsThatOfTheReplicaThatWritesMost) {
  for (const Sets& layout :
       {Sets{"parallel.data=3"}, Sets{"parallel.data=4"}, Sets{"parallel.data=3", kDistributed}}) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(layout, " ")));
    const Sets sets = with({"batch.global=24"}, layout);  // whole microbatches for 3 and for 4
    const Prediction prediction = predicted(with(sets, {"checkpoint.asynchronous=true"}));
    ASSERT_EQ(prediction.classes.size(), 1U);
    const std::vector<i64> bytes = written(sets);
    const auto [least, most] = std::ranges::minmax(bytes);
    EXPECT_EQ(prediction.classes[0].snapshot, most);
    EXPECT_LT(least, most) << "any replica could stand for all";
    EXPECT_EQ(predicted(sets).classes.at(0).snapshot, 0) << "nothing is copied";
  }
}

struct Shape {
  double q = 64, kv = 64, ffn = 256;  // features of queries, of keys and of values, of the MLP
  double visible = 0.5;               // share of the scores that attention computes
};
// Megatron-Core's formula (training.py), for a step of the small model: q, k and v and the output
// projection, two products of the MLP, the vocabulary as it is stored, and two products of
// attention, each with its two gradients.
double formula(const Shape& shape) {
  const double h = 64, s = 32, layers = 4, vocabulary = 256, tokens = 8 * s;
  const double block = h * (shape.q + 2 * shape.kv) + shape.q * h + 2 * h * shape.ffn;
  const double attention = 12 * shape.visible * shape.q * s;
  return tokens * (6 * (layers * block + h * vocabulary) + layers * attention);
}

TEST(PlannedWork, IsTheFormulaOfTheModel) {
  const auto expect = [](const Sets& sets, const Shape& shape) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(sets, " ")));
    const Prediction prediction = predicted(sets);
    EXPECT_DOUBLE_EQ(prediction.flops, formula(shape));
    EXPECT_DOUBLE_EQ(prediction.model_flops, formula(shape));
  };
  expect({}, {});
  expect({"model.block.mlp.ffn=128"}, {.ffn = 128});
  expect({"model.block.attention.kv_heads=2"}, {.kv = 32});
  expect({"model.block.attention.causal=false"}, {.visible = 1});
}

TEST(PlannedWork, OfTheModelIsTheSameInEveryLayout) {
  for (const Sets& sets : {Sets{"parallel.tensor=2", "parallel.sequence_parallel=true"},
                           Sets{"parallel.context=2"},
                           Sets{"parallel.data=2"},
                           Sets{"parallel.pipeline=2", "schedule.type=\"1f1b\""},
                           Sets{"recompute.mode=\"full\""}}) {
    EXPECT_DOUBLE_EQ(predicted(sets).model_flops, formula({}));
  }
}

TEST(PlannedWork, IsDividedAmongRanksAndGrowsByRecomputing) {
  const double one = predicted({}).flops;
  EXPECT_DOUBLE_EQ(predicted({"parallel.tensor=2"}).flops, one);
  EXPECT_DOUBLE_EQ(predicted({"parallel.data=4"}).flops, one);
  EXPECT_DOUBLE_EQ(predicted({"parallel.context=2"}).flops, one);
  const double again = predicted({"recompute.mode=\"full\""}).flops;
  const double h = 64, s = 32;
  EXPECT_DOUBLE_EQ(again - one, 2 * 8 * s * 4 * (12 * h * h + s * h));
}

// Small buckets are reduced while the backward pass goes on and gathered while the forward pass
// does; one large bucket is reduced after it and gathered before it.
TEST(PlannedOverlap, SaysHowMuchIsHidden) {
  const auto overlapped = [](i64 bucket, PlanAction::Kind kind) {
    const Prediction prediction = predicted(
        {"parallel.data=2", kDistributed, fmt::format("parallel.bucket_elements={}", bucket)});
    EXPECT_NE(report_text(prediction).find("parameters gathered: "), std::string::npos);
    return overlap_of(prediction.timeline, 0, kind);
  };
  for (const PlanAction::Kind kind : {PlanAction::Reduce, PlanAction::Gather}) {
    const PlannedOverlap many = overlapped(10000, kind), one = overlapped(i64{1} << 30, kind);
    EXPECT_GT(many.buckets, one.buckets);
    EXPECT_GT(many.hidden, 0);
    EXPECT_LE(many.hidden, many.seconds);
    EXPECT_LT(one.hidden / one.seconds, many.hidden / many.seconds);
  }
  const Prediction replicated = predicted({"parallel.data=2"});
  EXPECT_EQ(overlap_of(replicated.timeline, 0, PlanAction::Gather).buckets, 0);
}

// A rule of whole parameters: each is updated by one replica, and both have some.
TEST(PlannedRanges, OfWholeParametersHaveOneOwner) {
  const Resolved config = resolve(
      Config::parse(tiny_config(),
                    "test",
                    with_model({"parallel.data=2", kDistributed, "optimizer.rule.type=\"muon\""})),
      plugins());
  PlanArguments arguments;
  arguments.config = &config;
  arguments.plugins = &plugins();
  arguments.world = world_size(config.run);
  const std::vector<OptimizerRanges> all = optimizer_ranges(arguments);
  std::map<i64, i64> elements;  // by rank
  for (const OptimizerRanges::Bucket& bucket : all.at(0).buckets) {
    for (const OptimizerRanges::Of& of : bucket.parameters) {
      ASSERT_EQ(of.parts.size(), 1U) << of.name;
      EXPECT_EQ(of.parts[0].ranges.param.begin, 0);
      elements[of.parts[0].rank] += of.parts[0].ranges.param.length;
    }
  }
  ASSERT_EQ(elements.size(), 2U);
  EXPECT_NEAR(static_cast<double>(elements[0]) / static_cast<double>(elements[1]), 1, 0.1);
  EXPECT_NE(optimizer_ranges_text(all).find("whole parameters shared out to 2"), std::string::npos);
}

TEST(Planning, AssumesThatExpertsAreEquallyLoaded) {
  const Sets experts = {"model.block.mlp.type=\"moe\"",
                        "model.block.mlp.experts=8",
                        "model.block.mlp.top_k=2",
                        "model.block.mlp.ffn=16"};
  const Prediction one = predicted(experts);
  const i64 layers = 4, hidden = 64, matrices = 3 * hidden * 16;
  EXPECT_EQ(one.parameters - one.active_parameters, layers * (8 - 2) * matrices);
  Sets on_two = experts;
  on_two.insert(on_two.end(), {"parallel.data=4", "parallel.expert=2"});
  const Prediction two = predicted(on_two);
  EXPECT_DOUBLE_EQ(two.flops, one.flops);
  EXPECT_DOUBLE_EQ(two.model_flops, one.model_flops);
  EXPECT_EQ(two.classes.front().parameters, one.classes.front().parameters - layers * 4 * matrices);
  std::vector<std::string> groups;
  for (const PlannedGroups& of : two.groups) groups.push_back(of.axes);
  EXPECT_THAT(groups, ::testing::ElementsAre("dp", "ep", "edp"));
  EXPECT_THAT(report_text(two), ::testing::HasSubstr(" parameters, of which a token uses "));
}

// Blocks differ in how many integers the host reads back, from scratch memory that graphs share.
TEST(Planning, OfTwoKindsOfExpertsIsTheSameWithGraphs) {
  for (const auto& [a, b] : {std::pair(16, 8), std::pair(8, 16)}) {
    SCOPED_TRACE(a);
    const Sets eager = {"parallel.expert=2",
                        "model.pattern=\"b a a b\"",
                        "model.block.mlp.type=\"moe\"",
                        "model.block.mlp.experts=8",
                        "model.block.mlp.ffn=16",
                        fmt::format("model.blocks.a.mlp.experts={}", a),
                        fmt::format("model.blocks.b.mlp.experts={}", b)};
    const Prediction without = predicted(eager);
    const Prediction with_graphs = predicted(with(eager, {"graph.type=\"partial\""}));
    EXPECT_EQ(with_graphs.flops, without.flops);
    EXPECT_EQ(counted(with_graphs.classes.front()), counted(without.classes.front()));
  }
}

// Every rank is planned as the one whose experts get most.
TEST(Planning, TakesALoadThatIsNotBalanced) {
  const Resolved config = resolve(Config::parse(tiny_config(),
                                                "test",
                                                with_model({"model.block.mlp.type=\"moe\"",
                                                            "model.block.mlp.experts=8",
                                                            "model.block.mlp.ffn=16",
                                                            "parallel.expert=4"})),
                                  plugins());
  PlanArguments arguments;
  arguments.config = &config;
  arguments.plugins = &plugins();
  arguments.world = world_size(config.run);
  const Prediction even = predict(arguments);
  arguments.imbalance = 1.5;
  const Prediction uneven = predict(arguments);
  // Products of a row at an expert, forward and two gradients; 8 samples of 32 positions.
  const double row = 3 * 2 * 3 * 64 * 16, rows = 4 * 2 * 8 * 32;
  EXPECT_DOUBLE_EQ(uneven.flops - even.flops, 0.5 * rows * row);
  EXPECT_EQ(uneven.model_flops, even.model_flops);
  const auto activations = [](const Prediction& p) {
    return p.classes.front().memory.peak[static_cast<std::size_t>(Category::activations)];
  };
  EXPECT_GT(activations(uneven), activations(even));
}

// As many rows as with a router whose rows choose: the places of an expert follow from shapes, on
// one rank too, and where ranks hold parts of sequences so does the mean.
TEST(Planning, CountsTheRowsThatExpertsChoose) {
  const Sets rows_choose = {"model.block.mlp.type=\"moe\"",
                            "model.block.mlp.experts=8",
                            "model.block.mlp.top_k=2",
                            "model.block.mlp.ffn=16"};
  const Sets experts_choose = with(rows_choose, {"model.block.mlp.router.type=\"expert_choice\""});
  const std::vector<Sets> layouts = {
      {},
      {"parallel.expert=2"},
      {"parallel.tensor=2", "parallel.expert=2", "parallel.expert_tensor=1"},
      {"parallel.tensor=2",
       "parallel.expert=2",
       "parallel.expert_tensor=1",
       "model.block.mlp.dispatcher.type=\"allgather\""},
      {"parallel.context=2", "parallel.expert=2"}};
  for (const Sets& layout : layouts) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(layout, " ")));
    const Prediction chosen = predicted(with(experts_choose, layout));
    const Prediction usual = predicted(with(rows_choose, layout));
    EXPECT_DOUBLE_EQ(chosen.flops, usual.flops);
    EXPECT_DOUBLE_EQ(chosen.model_flops, usual.model_flops);
    const auto activations = [](const Prediction& p) {
      return static_cast<double>(
          p.classes.front().memory.peak[static_cast<std::size_t>(Category::activations)]);
    };
    const bool whole = layout.size() < 2;
    if (whole) EXPECT_LT(activations(chosen), 1.2 * activations(usual));
  }
}

// Half of what the experts would take otherwise.
TEST(Planning, CountsWhatACapacityLeaves) {
  const Sets dropless = {
      "model.block.mlp.type=\"moe\"", "model.block.mlp.experts=8", "model.block.mlp.ffn=16"};
  const Sets dropping = with(dropless, {"model.block.mlp.capacity_factor=0.5"});
  const double row = 3 * 2 * 3 * 64 * 16, rows = 4 * 2 * 8 * 32;
  for (const Sets& layout : {Sets{}, Sets{"parallel.expert=2"}}) {
    const double fewer =
        predicted(with(dropless, layout)).flops - predicted(with(dropping, layout)).flops;
    EXPECT_DOUBLE_EQ(fewer, 0.5 * rows * row);
  }
}

// Capacity and padding: what is planned does not depend on an assumption.
TEST(Planning, KnowsPaddedShapes) {
  const Sets padded = {"model.block.mlp.type=\"moe\"",
                       "model.block.mlp.experts=8",
                       "model.block.mlp.ffn=16",
                       "model.block.mlp.capacity_factor=2.0",
                       "model.block.mlp.pad_to_capacity=true",
                       "parallel.expert=4"};
  const Prediction all = predicted(padded);
  Sets dropless = padded;
  dropless.insert(
      dropless.end(),
      {"model.block.mlp.pad_to_capacity=false", "model.block.mlp.capacity_factor=\"none\""});
  const double row = 3 * 2 * 3 * 64 * 16, rows = 4 * 2 * 8 * 32;
  EXPECT_DOUBLE_EQ(all.flops - predicted(dropless).flops, rows * row);
}

}  // namespace plan_test
}  // namespace tessera::testing

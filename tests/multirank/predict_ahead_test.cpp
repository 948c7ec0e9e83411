// A model that predicts tokens after the next one too (model.predict_ahead): its losses and
// gradients are the same under any layout, and nothing but training knows of it.
#include <gmock/gmock.h>

#include <filesystem>

#include "common/error_of.hpp"
#include "kernel/planner/predict.hpp"
#include "kernel/train/run/dry_run.hpp"
#include "layouts_support.hpp"
#include "mutants_support.hpp"
#include "mutation_support.hpp"
#include "trainer_support.hpp"

namespace tessera::testing {
namespace predict_ahead_test {

const std::string kRows = "parallel.sequence_parallel=true";
const std::string kGraphs = "graph.type=\"partial\"";
const Sets kTensor = {"parallel.tensor=2"};
const Sets kContext = {"parallel.context=2"};
const Sets kStages = {"parallel.pipeline=2", "schedule.type=\"1f1b\""};
const Sets kFourStages = {"parallel.pipeline=2", "placement.layout=\"E|t|t|L\""};
const Sets kInterleaved =
    with(kFourStages, {"schedule.type=\"interleaved_1f1b\"", "schedule.chunks=2"});
const Sets kRecompute = {"recompute.mode=\"full\""};

// Two depths that weigh as much as the loss itself, so that what is wrong in them shows.
const Sets kTwo = {"model.predict_ahead.type=\"multi_token_prediction\"",
                   "model.predict_ahead.layers=2",
                   "model.predict_ahead.weight=1.0"};
const Sets kOne = with(kTwo, {"model.predict_ahead.layers=1"});
const Sets kUntied = {"model.tied_embeddings=false"};
const Sets kLlama = {"model.embedding.learned_positions=false",
                     "model.block.norm.type=\"rmsnorm\"",
                     "model.head.norm.type=\"rmsnorm\"",
                     "model.predict_ahead.norm.type=\"rmsnorm\"",
                     "model.block.attention.rotary.type=\"default\"",
                     "model.tied_embeddings=false"};
// The last of them is the kind of the depths' blocks.
const Sets kMixed = {"model.pattern=\"dense sparse\"",
                     "model.block.mlp.type=\"moe\"",
                     "model.block.mlp.experts=4",
                     "model.block.mlp.ffn=8",
                     "model.blocks.sparse.mlp.top_k=2",
                     "model.blocks.dense.mlp.type=\"mlp\"",
                     "model.blocks.dense.mlp.ffn=24"};

Sets method(std::string_view name) {
  return with(kContext, {fmt::format("model.block.attention.context=\"{}\"", name)});
}

struct AheadRow {
  std::string name;
  Sets sets;
  Sets model = {};
};
void PrintTo(const AheadRow& row, std::ostream* out) { *out << row.name; }

std::vector<AheadRow> rows() {
  return {{"micro1", {"batch.micro=1"}},
          {"tp2", kTensor},
          {"tp2_untied", kTensor, kUntied},
          {"tp2_sp", with(kTensor, {kRows})},
          {"tp2_sp_llama", with(kTensor, {kRows}), kLlama},
          {"tp4_sp_micro1", {"parallel.tensor=4", "batch.micro=1", kRows}},
          {"cp2_ring", method("ring")},
          {"cp2_allgather", method("allgather")},
          {"cp2_all_to_all", method("all_to_all")},
          {"cp4", {"parallel.context=4"}},
          {"tp2_cp2", with(kTensor, kContext)},
          {"tp2_cp2_sp_llama", with(with(kTensor, kContext), {kRows}), kLlama},
          {"distributed_dp2", {"parallel.data=2", "optimizer.type=\"distributed\""}},
          {"pp2", kStages},
          {"pp2_untied", kStages, kUntied},
          {"pp2_uneven_untied", with(kStages, {"placement.layout=\"E|ttL\""}), kUntied},
          {"pp2_llama", kStages, kLlama},
          {"interleaved_pp2", kInterleaved},
          {"interleaved_pp2_untied", kInterleaved, kUntied},
          {"zbv_pp2_untied", with(kFourStages, {"schedule.type=\"zbv\""}), kUntied},
          {"zb_h1_pp2", {"parallel.pipeline=2", "schedule.type=\"zb_h1\""}},
          {"distributed_pp2_dp2_untied",
           with(kStages, {"parallel.data=2", "optimizer.type=\"distributed\""}),
           kUntied},
          {"recompute", kRecompute},
          {"recompute_tp2_sp", with(with(kTensor, kRecompute), {kRows})},
          {"recompute_interleaved", with(kInterleaved, kRecompute)},
          {"recompute_mtp", {"recompute.mode=\"selective\"", "recompute.scopes=[\"mtp\"]"}},
          {"graphs", {kGraphs}},
          {"graphs_tp2_sp", with(kTensor, {kRows, kGraphs})},
          {"graphs_pp2_untied", with(kStages, {kGraphs}), kUntied},
          {"graphs_recompute", with(kRecompute, {kGraphs})},
          {"whole_step", {"graph.type=\"full_iteration\""}},
          {"cpu_tp2_sp", with(kTensor, {kRows, "device.type=\"cpu\""})},
          {"cpu_cp2", with(kContext, {"device.type=\"cpu\""})},
          {"experts_tp2_sp", with(kTensor, {kRows}), kMixed},
          {"experts_dp2_ep2", {"parallel.data=2", "parallel.expert=2"}, kMixed},
          {"experts_pp2", kStages, kMixed}};
}

class PredictAhead : public ::testing::TestWithParam<AheadRow> {};

TEST_P(PredictAhead, HasOneLossCurve) {
  const Findings found = check_invariant(plugins(), GetParam().sets, with(kTwo, GetParam().model));
  EXPECT_TRUE(found.none()) << text(found);
}

INSTANTIATE_TEST_SUITE_P(Layouts, PredictAhead, ::testing::ValuesIn(rows()), [](const auto& info) {
  return info.param.name;
});

class PredictAheadIn16Bits : public ::testing::TestWithParam<AheadRow> {};

TEST_P(PredictAheadIn16Bits, IsAsNearAsOneRank) {
  const Findings found = check_narrow(
      plugins(), {"bf16", "cpu"}, GetParam().sets, Rounding::other, with(kTwo, GetParam().model));
  EXPECT_TRUE(found.none()) << text(found);
}

INSTANTIATE_TEST_SUITE_P(Layouts,
                         PredictAheadIn16Bits,
                         ::testing::Values(AheadRow{"tp2_sp", with(kTensor, {kRows})},
                                           AheadRow{"tp2_sp_llama", with(kTensor, {kRows}), kLlama},
                                           AheadRow{"cp2", kContext},
                                           AheadRow{"interleaved_pp2", kInterleaved}),
                         [](const auto& info) { return info.param.name; });

// --- what else there is ---

// The depths are beside the model: before the first update its loss is the same, whatever they are.
TEST(AheadLoss, IsNoPartOfTheLoss) {
  const auto first = [](const Sets& sets) {
    return train(tiny_config(), sets, {.steps = 1}).losses[0];
  };
  EXPECT_EQ(first(kTwo), first({}));
  EXPECT_EQ(first(with(kTwo, {"model.predict_ahead.weight=7.0"})), first({}));
}

const std::string kTrained = tiny_config() + "[observers.console]\ntype = \"none\"\n";

Sets trained(const Sets& layout, const std::string& out) {
  return with(with(kTwo, {"run.steps=6", "lr.warmup_steps=2", "validation.every_steps=6"}),
              with(layout, {"check.replicas_every=0", fmt::format("run.out=\"{}\"", out)}));
}

// A run that is stopped in one layout goes on in every other, and tells the same of its depths.
TEST(AheadLoss, IsTheSameInEveryLayoutAndAfterAResume) {
  const std::vector<TableRow> layouts = {
      {"single", {}},
      {"tp2_cp2", with(kTensor, kContext)},
      {"interleaved", kInterleaved},
      {"distributed", {"parallel.data=2", "optimizer.type=\"distributed\""}}};
  const TestFolder folder;
  run_trainer({kTrained, trained({}, folder.at("whole"))});
  const std::vector<double> ahead = metric_of(folder.at("whole"), "mtp");
  ASSERT_EQ(ahead.size(), 6U);
  for (const TableRow& from : layouts) {
    run_trainer({kTrained, trained(from.sets, folder.at(from.name)), 3});
    for (const TableRow& to : layouts) {
      SCOPED_TRACE(from.name + " to " + to.name);
      const std::string copy = folder.at(from.name + "_" + to.name);
      std::filesystem::copy(folder.at(from.name), copy, std::filesystem::copy_options::recursive);
      run_trainer({kTrained, trained(to.sets, copy)});
      EXPECT_EQ(difference(metric_of(copy, "mtp"), ahead, kLossTolerance, "mtp"), "");
      for (const std::string key : {"loss", "val_loss"}) {
        EXPECT_EQ(
            difference(
                metric_of(copy, key), metric_of(folder.at("whole"), key), kLossTolerance, key),
            "");
      }
    }
  }
}

// As MoE's phases read sizes back, which nothing leaves behind where they are skipped.
TEST(AheadLoss, IsLeftOutOfTextsAndOfTheirCaches) {
  for (const Sets& model : {Sets(), kMixed}) {
    const auto logits = [&](const Sets& sets, bool cached) {
      std::vector<float> values;
      on_ranks(tiny_config(),
               with(model, with(sets, {"batch.global=1", "batch.micro=1"})),
               [&](RankRun& run, Store*) {
                 const std::vector<i32> text = {1, 2, 3}, next = {4};
                 if (!cached) {
                   values = run.evaluation().logits(text);
                   return;
                 }
                 const auto cache = run.evaluation().make_cache(1);
                 ASSERT_NE(cache, nullptr);
                 run.evaluation().logits(text, *cache, {.rows = 3});
                 values = run.evaluation().logits(next, *cache, {}).at(0);
               });
      return values;
    };
    for (const bool cached : {false, true}) {
      const std::vector<float> without = logits({}, cached);
      ASSERT_FALSE(without.empty());
      EXPECT_EQ(logits(kTwo, cached), without);
    }
  }
}

Prediction predicted(const Sets& sets) {
  const Resolved config = resolve(Config::parse(tiny_config(), "test", sets), plugins());
  PlanArguments arguments;
  arguments.config = &config;
  arguments.plugins = &plugins();
  arguments.world = world_size(config.run);
  return predict(arguments);
}

// A depth is a block, and beyond it two norms and a product of [2 · hidden, hidden], the head's
// norm, and the head's product with its table (Megatron-LM counts the same: FLOPs of training.py).
TEST(AheadLoss, IsWhatThePlannerCounts) {
  const i64 hidden = 16, norm = 2 * hidden, vocabulary = 256, tokens = 8 * 8;
  const Prediction none = predicted({}), one = predicted(kOne), two = predicted(kTwo);
  const Prediction block = predicted({"model.layers=3"});
  const i64 own = 3 * norm + 2 * hidden * hidden;
  EXPECT_EQ(one.parameters, block.parameters + own);
  EXPECT_EQ(two.parameters - one.parameters, one.parameters - none.parameters);
  EXPECT_DOUBLE_EQ(one.model_flops,
                   block.model_flops + 6.0 * static_cast<double>(tokens * (2 * hidden * hidden +
                                                                           hidden * vocabulary)));
  EXPECT_DOUBLE_EQ(two.model_flops - one.model_flops, one.model_flops - none.model_flops);
  const Prediction cut = predicted(with(kOne, kStages));
  const Prediction cut_none = predicted(kStages);
  EXPECT_EQ(cut.parameters, one.parameters);
  EXPECT_DOUBLE_EQ(cut.model_flops, one.model_flops);
  EXPECT_EQ(cut.classes[0].parameters, cut_none.classes[0].parameters);
  const i64 more = cut.classes[1].parameters - cut_none.classes[1].parameters;
  EXPECT_EQ(more, one.parameters - none.parameters) << "the last stage has it";
  const i64 with_moments = 4 * more * dtype_size(DType::fp32);
  EXPECT_GT(cut.classes[1].memory.total_peak, cut_none.classes[1].memory.total_peak + with_moments);
  const Prediction without_data = predicted(with(kOne, {"data.path=\"/nowhere.txt\""}));
  EXPECT_FALSE(without_data.notes.empty());
  EXPECT_DOUBLE_EQ(without_data.model_flops, one.model_flops);
}

// --- mistakes that are found ---

const Part kHead = {"model.head", "ahead_head"};
const Part kEmbedding = {"model.embedding", "ahead_embedding"};
const Part kNorm = {"model.predict_ahead.norm", "norm"};

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> kMutations = {
      {"target_shifted_once_too_often",
       kContext,
       kHead,
       "target_shifted_once_too_often",
       {&Findings::gradients, &Findings::norms, &Findings::update},
       false,
       kTwo},
      {"mask_unshifted",
       kContext,
       kHead,
       "mask_unshifted",
       {&Findings::gradients, &Findings::norms, &Findings::update},
       false,
       kTwo},
      {"token_shifted_once_too_often",
       kTensor,
       kEmbedding,
       "token_shifted_once_too_often",
       {&Findings::gradients, &Findings::norms},
       false,
       kTwo},
      {"target_shifted_within_the_rank",
       kContext,
       kHead,
       "target_shifted_within_the_rank",
       {&Findings::gradients, &Findings::norms, &Findings::update},
       true,
       kTwo},
      {"norm_gradient_not_summed",
       with(kTensor, {kRows}),
       kNorm,
       "gradient_not_summed",
       {&Findings::gradients, &Findings::update},
       true,
       kTwo},
  };
  return kMutations;
}

class AheadMutants : public ::testing::TestWithParam<Mutation> {};

TEST_P(AheadMutants, TwinPasses) {
  const Findings found =
      check_invariant(mutants(), with(GetParam().layout, GetParam().component()), GetParam().model);
  EXPECT_TRUE(found.none()) << text(found);
}

TEST_P(AheadMutants, MistakeIsFound) {
  const Findings found = check_invariant(
      mutants(), with(GetParam().layout, GetParam().with_mistake()), GetParam().model);
  for (const Finding row : GetParam().found_by) EXPECT_NE(found.*row, "") << text(found);
}

TEST_P(AheadMutants, OneRankHidesItUnlessItIsNoMatterOfLayout) {
  const Findings found = check_invariant(mutants(), GetParam().with_mistake(), GetParam().model);
  EXPECT_EQ(found.none(), GetParam().hidden) << text(found);
}

INSTANTIATE_TEST_SUITE_P(All, AheadMutants, ::testing::ValuesIn(mutations()), [](const auto& info) {
  return info.param.name;
});

// --- bad input ---

struct Refusal {
  std::string name, table, what;
};
void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.name; }

const std::string kType = "type = \"multi_token_prediction\"\n";

std::vector<Refusal> refusals() {
  const std::string layers = "[model.predict_ahead] layers: expected integer in [1, 10000], got ";
  const std::string weight = "[model.predict_ahead] weight: expected float > 0, got ";
  return {
      {"no_layers", kType + "layers = 0", layers + "0"},
      {"negative_layers", kType + "layers = -1", layers + "-1"},
      {"huge_layers", kType + "layers = 1000000000000", layers + "1000000000000"},
      {"more_layers_than_a_sample_has_tokens",
       kType + "layers = 8",
       "model.predict_ahead.layers = 8: batch.sequence_length = 8 leaves depth 8 without a target; "
       "at most 7 layers fit"},
      {"no_weight", kType + "weight = 0.0", weight + "0.0"},
      {"negative_weight", kType + "weight = -0.1", weight + "-0.1"},
      {"weight_that_is_no_number", kType + "weight = nan", weight + "nan"},
      {"infinite_weight", kType + "weight = inf", weight + "inf"},
      {"without_a_type", "layers = 1", "know it, but type is \"\" here"},
      {"another_layer",
       "type = \"mlp\"",
       "model.predict_ahead.type = \"mlp\" has no key \"weight\""},
      {"one_key_for_both", kType + "depths = 1", "[model.predict_ahead] unknown key \"depths\""},
  };
}

class BadAhead : public ::testing::TestWithParam<Refusal> {};

TEST_P(BadAhead, IsRefused) {
  const std::string text = tiny_config() + "[model.predict_ahead]\n" + GetParam().table + "\n";
  EXPECT_THAT(error_of<ConfigError>([&] {
                const Resolved config = resolve(Config::parse(text, "run.toml"), plugins());
                checked_setup(config, plugins(), world_size(config.run), 1);
              }),
              ::testing::HasSubstr(GetParam().what));
}

INSTANTIATE_TEST_SUITE_P(All, BadAhead, ::testing::ValuesIn(refusals()), [](const auto& info) {
  return info.param.name;
});

}  // namespace predict_ahead_test
}  // namespace tessera::testing

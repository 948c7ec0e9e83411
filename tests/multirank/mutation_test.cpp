// Components that go wrong under some layout must fail the invariant table; the same components
// without their mistake must pass it.
#include <gmock/gmock.h>

#include "context_mutants_support.hpp"
#include "mutants_support.hpp"
#include "mutation_support.hpp"
#include "pipeline_mutants_support.hpp"

namespace tessera::testing {
namespace mutation_test {

using ::testing::HasSubstr;

const Sets kTensor = {"parallel.tensor=2"};
const Sets kRows = {"parallel.tensor=2", "parallel.sequence_parallel=true"};
const Sets kData = {"parallel.data=2"};
const Sets kContext = {"parallel.context=2"};
const Sets kPipeline = {"parallel.pipeline=2", "schedule.type=\"1f1b\""};
const Sets kRecompute = {"recompute.mode=\"full\""};
const Sets kRecomputedPipeline = with(kPipeline, kRecompute);
const Sets kSplitBackward = {"parallel.pipeline=2", "schedule.type=\"zb_h1\""};
const Sets kUneven = with(kPipeline, {"placement.layout=\"E|ttL\""});
const Sets kFourStages = {"parallel.pipeline=2", "placement.layout=\"E|t|t|L\""};
const std::string kMlp = "model.block.mlp", kAttention = "model.block.attention";
const std::vector<Row> kAll = {
    &Findings::losses, &Findings::norms, &Findings::gradients, &Findings::update};
// A bias starts at zero and its gradient is right: only later steps show that it doubles.
const std::vector<Row> kLater = {&Findings::losses, &Findings::norms};
// Adam does not see the scale of a gradient.
const std::vector<Row> kScale = {&Findings::norms, &Findings::gradients, &Findings::update};
const std::vector<Row> kNorm = {&Findings::norms};

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> kMutations = {
      {"bias_before_reduce_in_mlp",
       kTensor,
       kMlp + ".down",
       "row_linear",
       "bias_before_reduce",
       kLater},
      {"bias_before_reduce_in_attention",
       kTensor,
       kAttention + ".proj",
       "row_linear",
       "bias_before_reduce",
       kLater},
      {"no_backward_reduce_in_mlp",
       kTensor,
       kMlp + ".up",
       "column_linear",
       "no_backward_reduce",
       kAll},
      {"no_backward_reduce_in_attention",
       kTensor,
       kAttention + ".qkv",
       "column_linear",
       "no_backward_reduce",
       kAll},
      {"attention_mask_repeats", kTensor, kAttention, "attention", "same_mask_on_every_rank", kAll},
      {"dropout_mask_repeats", kData, "model.embedding", "embedding", "local_rows", kAll},
      {"norm_gradient_not_summed", kRows, "model.block.norm", "norm", "gradient_not_summed", kAll},
      {"bias_before_reduce_scatter_in_mlp",
       kRows,
       kMlp + ".down",
       "row_linear",
       "bias_before_reduce",
       kLater},
      {"bias_before_reduce_scatter_in_attention",
       kRows,
       kAttention + ".proj",
       "row_linear",
       "bias_before_reduce",
       kLater},
      {"dropout_mask_repeats_by_rows",
       kRows,
       "model.embedding",
       "embedding",
       "rows_of_the_first_part",
       kAll},
      {"zigzag_without_turn",
       kContext,
       kAttention,
       "context_attention",
       "second_half_not_reversed",
       kAll},
      {"causal_mask_by_local_positions",
       kContext,
       kAttention,
       "context_attention",
       "mask_by_local_positions",
       kAll},
      {"key_gradients_of_other_ranks_dropped",
       kContext,
       kAttention,
       "context_attention",
       "own_key_gradients_only",
       kAll},
      {"tied_gradient_halved", kTensor, "model.head", "head", "halved_tied", kAll, false},
      {"tied_gradient_dropped", kTensor, "model.head", "head", "dropped_tied", kAll, false},
      {"loss_scaled_by_data_ranks", kData, "model.head", "head", "mean_over_data", kScale},
      {"head_without_copy", kTensor, "model.head", "head", "no_copy", kAll},
      {"norm_counts_replicas", kTensor, "optimizer", "optimizer", "norm_of_every_replica", kNorm},
      {"norm_counts_copies_of_other_stages",
       kPipeline,
       "optimizer",
       "optimizer",
       "norm_of_every_copy",
       kNorm},
      {"tied_gradient_dropped_by_a_stage",
       kPipeline,
       "model.head",
       "head",
       "dropped_tied",
       kAll,
       false},
      {"tied_gradient_averaged_over_stages",
       kPipeline,
       "model.head",
       "head",
       "tied_averaged_over_stages",
       kAll},
      {"recomputed_dropout_draws_anew",
       kRecompute,
       kAttention,
       "recomputed_attention",
       "numbers_drawn_anew",
       kAll},
      {"recomputed_phase_forgets_an_input",
       kRecompute,
       kAttention,
       "recomputed_attention",
       "residual_forgotten",
       kAll},
      {"recomputed_phase_takes_another_microbatch",
       kRecomputedPipeline,
       kAttention,
       "recomputed_attention",
       "rows_kept_by_the_layer",
       kAll},
      {"weight_half_skipped", kSplitBackward, kMlp + ".up", "split_linear", "skipped", kAll},
      {"weight_half_added_twice",
       kSplitBackward,
       kMlp + ".up",
       "split_linear",
       "added_twice",
       kAll},
      {"weight_half_of_another_microbatch",
       kSplitBackward,
       kAttention + ".qkv",
       "split_linear",
       "newest_gradient",
       kAll},
      {"block_skipped_by_an_uneven_stage", kUneven, "model.block", "block", "skipped", kAll},
      {"block_repeated_by_an_uneven_stage", kUneven, "model.block", "block", "repeated", kAll},
      {"norm_forgets_replicas",
       kTensor,
       "optimizer",
       "optimizer",
       "norm_without_replicas",
       kNorm,
       false},
  };
  return kMutations;
}

const PluginHost& host() {
  static const std::unique_ptr<PluginHost> kHost = [] {
    auto loaded = load_plugins();
    loaded->add_builtin(&register_mutants);
    loaded->add_builtin(&register_context_mutants);
    loaded->add_builtin(&register_pipeline_mutants);
    return loaded;
  }();
  return *kHost;
}

class Mutants : public ::testing::TestWithParam<Mutation> {};

TEST_P(Mutants, TwinPasses) {
  const Findings found = check_invariant(host(), with(GetParam().layout, GetParam().component()));
  EXPECT_TRUE(found.none()) << text(found);
}

TEST_P(Mutants, MistakeIsFound) {
  const Findings found =
      check_invariant(host(), with(GetParam().layout, GetParam().with_mistake()));
  for (const Row row : GetParam().found_by) EXPECT_NE(found.*row, "") << text(found);
}

TEST_P(Mutants, OneRankHidesItUnlessItIsNoMatterOfLayout) {
  const Findings found = check_invariant(host(), GetParam().with_mistake());
  EXPECT_EQ(found.none(), GetParam().hidden) << text(found);
}

INSTANTIATE_TEST_SUITE_P(All, Mutants, ::testing::ValuesIn(mutations()), [](const auto& info) {
  return info.param.name;
});

// Layers would run on another stage than they were built for: no table is needed to see that.
TEST(PlaceCheck, RefusesPlacesThatChange) {
  const auto run = [] {
    train(tiny_config(),
          with(kFourStages,
               {"schedule.type=\"mutant_schedule\"",
                "schedule.mistake=\"built_for_other_places\"",
                "comm.timeout_s=2"}),
          {.host = &host()});
  };
  EXPECT_THAT(
      run, ::testing::ThrowsMessage<Error>(HasSubstr("when the model was built and is at stage")));
}

TEST(ReplicaCheck, NamesAParameterWhoseReductionIsMissing) {
  const auto run = [] {
    train(tiny_config(),
          {"parallel.tensor=2",
           "model.block.mlp.up.type=\"mutant_column_linear\"",
           "model.block.mlp.up.mistake=\"no_backward_reduce\""},
          {.host = &host()});
  };
  EXPECT_THAT(run,
              ::testing::ThrowsMessage<Error>(::testing::AllOf(
                  HasSubstr("replicas of parameter \""), HasSubstr("differ within tp[0,1]"))));
}

}  // namespace mutation_test
}  // namespace tessera::testing

// Components that go wrong under some layout must fail the invariant table; the same components
// without their mistake must pass it.
#include <gmock/gmock.h>

#include "mutants_support.hpp"
#include "mutation_support.hpp"

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
const Part kUp = {kMlp + ".up", "column_linear"}, kDown = {kMlp + ".down", "row_linear"};
const Part kQkv = {kAttention + ".qkv", "column_linear"};
const Part kProj = {kAttention + ".proj", "row_linear"};
const Part kMixer = {kAttention, "attention"}, kRecomputed = {kAttention, "recomputed_attention"};
const Part kEmbedding = {"model.embedding", "embedding"}, kHead = {"model.head", "head"};
const Sets kTurned = {"model.block.attention.rotary.type=\"default\""};
const Part kHeadNorm = {kAttention + ".q_norm", "norm"};
const Part kNormLayer = {"model.block.norm", "norm"}, kRmsNorm = {"model.block.norm", "rmsnorm"};
const Sets kRmsModel = {"model.block.norm.type=\"rmsnorm\""};
const Part kLatentNorm = {kAttention + ".kv_norm", "rmsnorm"};
const Sets kLatentModel = {"model.block.attention.type=\"latent_attention\"",
                           "model.block.attention.kv_latent=8",
                           "model.block.attention.fixed_size=6",
                           "model.block.attention.rotary_size=4",
                           "model.block.attention.init_std=0.3"};
const Part kBlock = {"model.block", "block"};
const Part kOptimizer = {"optimizer", "optimizer"};
// A bias starts at zero and its gradient is right: only later steps show that it doubles.
const std::vector<Finding> kLater = {&Findings::losses, &Findings::norms};
// Adam does not see the scale of a gradient.
const std::vector<Finding> kScale = {&Findings::norms, &Findings::gradients, &Findings::update};
const std::vector<Finding> kNorm = {&Findings::norms};
// Weights near 1 with small gradients: losses and one update differ by less than the tolerance.
const std::vector<Finding> kSmall = {&Findings::norms, &Findings::gradients};

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> kMutations = {
      {"bias_before_reduce_in_mlp", kTensor, kDown, "bias_before_reduce", kLater},
      {"bias_before_reduce_in_attention", kTensor, kProj, "bias_before_reduce", kLater},
      {"no_backward_reduce_in_mlp", kTensor, kUp, "no_backward_reduce"},
      {"no_backward_reduce_in_attention", kTensor, kQkv, "no_backward_reduce"},
      {"attention_mask_repeats", kTensor, kMixer, "same_mask_on_every_rank"},
      {"dropout_mask_repeats", kData, kEmbedding, "local_rows"},
      {"norm_gradient_not_summed", kRows, kNormLayer, "gradient_not_summed"},
      {"turned_by_positions_in_the_rank",
       kContext,
       kEmbedding,
       "positions_in_the_rank",
       {&Findings::gradients},
       true,
       kTurned},
      {"turned_by_positions_in_the_half",
       kContext,
       kEmbedding,
       "positions_in_the_half",
       {&Findings::gradients},
       true,
       kTurned},
      {"head_norm_gradient_not_summed",
       kTensor,
       kHeadNorm,
       "gradient_not_summed",
       {&Findings::gradients, &Findings::update},
       true,
       {"model.block.attention.q_norm.type=\"layernorm\""}},
      {"rms_gradient_not_summed", kRows, kRmsNorm, "gradient_not_summed", kSmall, true, kRmsModel},
      {"rms_of_own_features", kTensor, kRmsNorm, "own_features", kAll, true, kRmsModel},
      {"rms_of_own_features_of_own_rows", kRows, kRmsNorm, "own_features", kAll, true, kRmsModel},
      {"latent_norm_gradient_not_summed",
       kRows,
       kLatentNorm,
       "gradient_not_summed",
       kSmall,
       true,
       kLatentModel},
      {"bias_before_reduce_scatter_in_mlp", kRows, kDown, "bias_before_reduce", kLater},
      {"bias_before_reduce_scatter_in_attention", kRows, kProj, "bias_before_reduce", kLater},
      {"dropout_mask_repeats_by_rows", kRows, kEmbedding, "rows_of_the_first_part"},
      {"zigzag_without_turn", kContext, kMixer, "second_half_not_reversed"},
      {"causal_mask_by_local_positions", kContext, kMixer, "mask_by_local_positions"},
      {"key_gradients_of_other_ranks_dropped", kContext, kMixer, "own_key_gradients_only"},
      {"tied_gradient_halved", kTensor, kHead, "halved_tied", kAll, false},
      {"tied_gradient_dropped", kTensor, kHead, "dropped_tied", kAll, false},
      {"loss_scaled_by_data_ranks", kData, kHead, "mean_over_data", kScale},
      {"head_without_copy", kTensor, kHead, "no_copy"},
      {"norm_counts_replicas", kTensor, kOptimizer, "norm_of_every_replica", kNorm},
      {"norm_counts_copies_of_other_stages", kPipeline, kOptimizer, "norm_of_every_copy", kNorm},
      {"tied_gradient_dropped_by_a_stage", kPipeline, kHead, "dropped_tied", kAll, false},
      {"tied_gradient_averaged_over_stages", kPipeline, kHead, "tied_averaged_over_stages"},
      {"recomputed_dropout_draws_anew", kRecompute, kRecomputed, "numbers_drawn_anew"},
      {"recomputed_phase_forgets_an_input", kRecompute, kRecomputed, "residual_forgotten"},
      {"recomputed_phase_takes_another_microbatch",
       kRecomputedPipeline,
       kRecomputed,
       "rows_kept_by_the_layer"},
      {"weight_half_skipped", kSplitBackward, kUp, "skipped"},
      {"weight_half_added_twice", kSplitBackward, kUp, "added_twice"},
      {"weight_half_of_another_microbatch", kSplitBackward, kQkv, "newest_gradient"},
      {"block_skipped_by_an_uneven_stage", kUneven, kBlock, "skipped"},
      {"block_repeated_by_an_uneven_stage", kUneven, kBlock, "repeated"},
      {"norm_forgets_replicas", kTensor, kOptimizer, "norm_without_replicas", kNorm, false},
  };
  return kMutations;
}

class Mutants : public ::testing::TestWithParam<Mutation> {};

TEST_P(Mutants, TwinPasses) {
  const Findings found =
      check_invariant(mutants(), with(GetParam().layout, GetParam().component()), GetParam().model);
  EXPECT_TRUE(found.none()) << text(found);
}

TEST_P(Mutants, MistakeIsFound) {
  const Findings found = check_invariant(
      mutants(), with(GetParam().layout, GetParam().with_mistake()), GetParam().model);
  for (const Finding row : GetParam().found_by) EXPECT_NE(found.*row, "") << text(found);
}

TEST_P(Mutants, OneRankHidesItUnlessItIsNoMatterOfLayout) {
  const Findings found = check_invariant(mutants(), GetParam().with_mistake(), GetParam().model);
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
          {.host = &mutants()});
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
          {.host = &mutants()});
  };
  EXPECT_THAT(run,
              ::testing::ThrowsMessage<Error>(::testing::AllOf(
                  HasSubstr("replicas of parameter \""), HasSubstr("differ within tp[0,1]"))));
}

}  // namespace mutation_test
}  // namespace tessera::testing

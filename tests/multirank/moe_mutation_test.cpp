// Mistakes with experts must fail the invariant table; the same components without them pass it.
#include <gmock/gmock.h>

#include "mutants_support.hpp"
#include "mutation_support.hpp"

namespace tessera::testing {
namespace moe_mutation_test {

const Sets kModel = {"precision.compute=\"fp64\"",
                     "precision.main=\"fp64\"",
                     "model.block.mlp.type=\"moe\"",
                     "model.block.mlp.experts=4",
                     "model.block.mlp.ffn=8",
                     "model.block.mlp.init_std=0.5"};  // so that experts are heard
const Sets kExperts = {"parallel.expert=2", "parallel.data=4"};
const Sets kTensor = {"parallel.tensor=2"}, kContext = {"parallel.context=2"};
const Sets kData = {"parallel.data=2"}, kFour = {"parallel.data=4"};
const Part kDispatcher = {"model.block.mlp.dispatcher", "dispatcher"};
const Part kRouter = {"model.block.mlp.router", "router"}, kOptimizer = {"optimizer", "optimizer"};
// Adam does not see the scale of a gradient.
const std::vector<Finding> kUpdate = {&Findings::norms, &Findings::update};
const std::vector<Finding> kGradient = {&Findings::norms, &Findings::gradients, &Findings::update};
const std::vector<Finding> kLosses = {&Findings::losses};
const Sets kSequenceLoss = {"model.block.mlp.sequence_loss=0.5"};
const Sets kZLoss = {"model.block.mlp.z_loss=0.5"};
const Sets kTies = {"model.block.mlp.router.init_std=0"};
const Sets kBias = {"model.block.mlp.router.score=\"sigmoid\"",
                    "model.block.mlp.router.bias_rate=0.05"};
const std::vector<Finding> kNorm = {&Findings::norms};

// Drops by position, which row ids tell in every layout; dropout reads them too.
const Sets kCapacity = {"model.dropout=0.0",
                        "model.block.mlp.capacity_factor=1.0",
                        "model.block.mlp.drop=\"position\""};

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> kMutations = {
      {.name = "drops_by_local_position",
       .layout = kContext,
       .part = kRouter,
       .mistake = "local_positions",
       .model = kCapacity},
      {.name = "shared_expert_on_every_tensor_rank",
       .layout = kTensor,
       .part = {"model.block.mlp", "shared_layer"},
       .mistake = "on_every_rank",
       .model = {"model.block.mlp.shared_ffn=12"},
       .also = {"model.block.mlp.inner.experts=4",
                "model.block.mlp.inner.ffn=8",
                "model.block.mlp.inner.init_std=0.5"}},
      {"rows_of_two_sources_swapped", kExperts, kDispatcher, "sources_swapped"},
      {"last_row_dropped", kExperts, kDispatcher, "last_row_dropped"},
      {"weight_of_the_next_row", kExperts, kDispatcher, "weight_of_the_next_row"},
      {"router_gradient_not_summed", kTensor, kRouter, "gradient_not_summed", kGradient},
      {"auxiliary_counts_of_one_rank",
       with(kContext,
            {"model.block.mlp.sequence_loss=0", "model.block.mlp.router.own_sequence_loss=0.5"}),
       kRouter,
       "counts_of_one_rank",
       kGradient,
       true,
       kSequenceLoss},
      {"auxiliary_losses_times_context",
       kContext,
       kRouter,
       "losses_times_context",
       kGradient,
       true,
       kSequenceLoss},
      {"auxiliary_losses_over_microbatches",
       kData,
       kRouter,
       "losses_over_microbatches",
       kGradient,
       false,
       kSequenceLoss},
      {"z_loss_over_tensor_ranks", kTensor, kRouter, "losses_over_tensor", kGradient, true, kZLoss},
      {"bias_in_weights", kData, kRouter, "bias_in_weights", kLosses, false, kBias},
      {"bias_from_local_counts", kFour, kRouter, "local_counts", kLosses, true, kBias},
      {"ties_to_the_higher_expert", kData, kRouter, "higher_of_ties", kAll, false, kTies},
      {"expert_gradients_over_dense_replicas",
       kExperts,
       kOptimizer,
       "summed_over_dense_replicas",
       kUpdate},
      {"expert_gradients_divided_by_expert_ranks",
       kExperts,
       kOptimizer,
       "divided_by_expert_ranks",
       kUpdate},
      {"norm_counts_replicas_of_experts",
       kExperts,
       kOptimizer,
       "norm_of_every_expert_replica",
       kNorm},
      {"norm_without_other_experts", kExperts, kOptimizer, "norm_of_own_experts", kNorm},
  };
  return kMutations;
}

class MoeMutants : public ::testing::TestWithParam<Mutation> {
 protected:
  static Sets model() { return with(kModel, GetParam().model); }
};

TEST_P(MoeMutants, TwinPasses) {
  const Findings found =
      check_invariant(mutants(), with(GetParam().component(), GetParam().layout), model());
  EXPECT_TRUE(found.none()) << text(found);
}

TEST_P(MoeMutants, MistakeIsFound) {
  const Findings found =
      check_invariant(mutants(), with(GetParam().with_mistake(), GetParam().layout), model());
  for (const Finding row : GetParam().found_by) EXPECT_NE(found.*row, "") << text(found);
}

TEST_P(MoeMutants, OneRankHidesIt) {
  if (!GetParam().hidden) return;
  const Findings found = check_invariant(mutants(), GetParam().with_mistake(), model());
  EXPECT_TRUE(found.none()) << text(found);
}

// Counts that are all twice as large balance as well, so the table cannot find them.
TEST(MoeCounts, LoadsCountedAgainByRecomputationAreFound) {
  const auto counted = [](const Sets& sets) {
    i64 sum = 0;
    TrainOptions options;
    options.host = &mutants();
    options.before_update = [&](RankRun& run) {
      for (const auto& buffer : run.parts().buffers()) {
        if (buffer->name != "layers.0.mlp.router.counts") continue;
        std::vector<i64> counts(static_cast<std::size_t>(buffer->local.elements()));
        run.device().read(buffer->value, counts.data());
        for (const i64 count : counts) sum += count;
      }
    };
    train(tiny_config(), with(with(kModel, kBias), sets), options);
    return sum;
  };
  const i64 choices = 8 * 8 * 2;  // batch.global sequences of 8 positions, top_k
  const std::string type = kRouter.path + ".type=\"mutant_router\"";
  EXPECT_EQ(counted({}), choices);
  for (const std::string mode : {"none", "full"}) {
    const std::string recompute = fmt::format("recompute.mode=\"{}\"", mode);
    EXPECT_EQ(counted({recompute}), choices);
    EXPECT_EQ(counted({type, recompute}), choices);
  }
  EXPECT_EQ(
      counted(
          {type, kRouter.path + ".mistake=\"counted_by_recompute\"", "recompute.mode=\"full\""}),
      2 * choices);
}

INSTANTIATE_TEST_SUITE_P(All, MoeMutants, ::testing::ValuesIn(mutations()), [](const auto& info) {
  return info.param.name;
});

}  // namespace moe_mutation_test
}  // namespace tessera::testing

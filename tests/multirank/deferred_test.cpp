// The same training with every stream's work delayed and reordered as far as events allow: a
// missing wait, or memory given back too early, changes bits or gives NaN.
#include <gtest/gtest.h>

#include "invariant_support.hpp"

namespace tessera::testing {
namespace deferred_test {

struct DeferredRun {
  std::string name;
  Sets sets;
};

class Deferred : public ::testing::TestWithParam<DeferredRun> {};

constexpr int kSteps = 3;
constexpr u64 kSeeds[] = {1, 2, 3, 4, 5, 6, 7, 8};

TEST_P(Deferred, EqualsInlineBitForBit) {
  const Sets sets = GetParam().sets;
  const Training inlined = train(tiny_config(), sets, {.steps = kSteps});
  for (const u64 seed : kSeeds) {
    SCOPED_TRACE(seed);
    const Training deferred = train(tiny_config(), sets, {.steps = kSteps, .deferred_seed = seed});
    EXPECT_EQ(deferred.losses, inlined.losses);
    EXPECT_EQ(deferred.norms, inlined.norms);
    EXPECT_TRUE(deferred.gradients == inlined.gradients);
    EXPECT_TRUE(deferred.parameters == inlined.parameters);
  }
}

Sets moe(const Sets& more) {
  return with({"parallel.tensor=2",
               "parallel.context=2",
               "parallel.expert=2",
               "parallel.expert_tensor=1",
               "model.block.mlp.type=\"moe\"",
               "model.block.mlp.experts=4",
               "model.block.mlp.ffn=8",
               "model.block.mlp.z_loss=0.5"},
              more);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts,
    Deferred,
    ::testing::Values(
        DeferredRun{"moe_balanced",
                    moe({"model.block.mlp.sequence_loss=0.5",
                         "model.block.mlp.global_loss=0.5",
                         "model.block.mlp.router.score=\"sigmoid\"",
                         "model.block.mlp.router.bias_rate=0.05",
                         "model.block.mlp.router.jitter=0.1"})},
        DeferredRun{"moe_expert_choice", moe({"model.block.mlp.router.type=\"expert_choice\""})},
        DeferredRun{"moe_expert_choice_padded",
                    moe({"model.block.mlp.router.type=\"expert_choice\"",
                         "model.block.mlp.pad_to_capacity=true"})},
        DeferredRun{"predict_ahead_tp2_sp_pp2_untied",
                    {"parallel.tensor=2",
                     "parallel.sequence_parallel=true",
                     "parallel.pipeline=2",
                     "schedule.type=\"1f1b\"",
                     "model.tied_embeddings=false",
                     "model.predict_ahead.type=\"multi_token_prediction\"",
                     "model.predict_ahead.layers=2"}},
        DeferredRun{"one_rank", {}},
        DeferredRun{"tp2", {"parallel.tensor=2"}},
        DeferredRun{"dp2", {"parallel.data=2"}},
        DeferredRun{"dp2_buckets", {"parallel.data=2", "parallel.bucket_elements=1000"}},
        DeferredRun{"tp2_dp2", {"parallel.tensor=2", "parallel.data=2"}},
        DeferredRun{"tp2_sp", {"parallel.tensor=2", "parallel.sequence_parallel=true"}},
        DeferredRun{
            "cpu_tp4_sp",
            {"device.type=\"cpu\"", "parallel.tensor=4", "parallel.sequence_parallel=true"}},
        DeferredRun{"cp2", {"parallel.context=2"}},
        DeferredRun{"cpu_cp4", {"device.type=\"cpu\"", "parallel.context=4"}},
        DeferredRun{"cp4_allgather",
                    {"parallel.context=4", "model.block.attention.context=\"allgather\""}},
        DeferredRun{"cp4_all_to_all",
                    {"parallel.context=4", "model.block.attention.context=\"all_to_all\""}},
        DeferredRun{"pp2", {"parallel.pipeline=2", "schedule.type=\"1f1b\"", "batch.micro=1"}},
        DeferredRun{"pp2_zbv",
                    {"parallel.pipeline=2",
                     "schedule.type=\"zbv\"",
                     "batch.micro=1",
                     "placement.layout=\"E|t|t|L\""}},
        DeferredRun{"cpu_pp2_tp2_recompute",
                    {"device.type=\"cpu\"",
                     "parallel.pipeline=2",
                     "parallel.tensor=2",
                     "recompute.mode=\"full\"",
                     "schedule.type=\"zb_h1\""}},
        DeferredRun{"dp2_distributed",
                    {"parallel.data=2",
                     "parallel.bucket_elements=1000",
                     "check.replicas_every=0",
                     "optimizer.type=\"distributed\""}},
        DeferredRun{"dp2_bf16_gradients",
                    {"parallel.data=2",
                     "parallel.bucket_elements=1000",
                     "parallel.gradient_dtype=\"bf16\""}},
        DeferredRun{"cpu_pp2_tp2_cp2_distributed",
                    {"device.type=\"cpu\"",
                     "parallel.pipeline=2",
                     "parallel.tensor=2",
                     "parallel.context=2",
                     "parallel.bucket_elements=1000",
                     "check.replicas_every=0",
                     "schedule.type=\"1f1b\"",
                     "optimizer.type=\"distributed\""}},
        DeferredRun{"tp2_cp2", {"parallel.tensor=2", "parallel.context=2"}},
        DeferredRun{"ep2_etp2",
                    {"model.block.mlp.type=\"moe\"",
                     "model.block.mlp.experts=4",
                     "model.block.mlp.ffn=8",
                     "parallel.expert=2",
                     "parallel.expert_tensor=2"}},
        DeferredRun{"cpu_tp2_ep4_etp1_recompute",
                    {"device.type=\"cpu\"",
                     "model.block.mlp.type=\"moe\"",
                     "model.block.mlp.experts=4",
                     "model.block.mlp.ffn=16",
                     "parallel.tensor=2",
                     "parallel.expert=4",
                     "parallel.expert_tensor=1",
                     "recompute.mode=\"full\""}},
        DeferredRun{"tp2_ep2_allgather",
                    {"model.block.mlp.type=\"moe\"",
                     "model.block.mlp.dispatcher.type=\"allgather\"",
                     "model.block.mlp.experts=4",
                     "model.block.mlp.ffn=8",
                     "parallel.tensor=2",
                     "parallel.expert=2",
                     "parallel.expert_tensor=1"}},
        DeferredRun{"tp2_sp_ep2_etp1_zbv_shared_overlap",
                    {"model.block.mlp.type=\"moe\"",
                     "model.block.mlp.experts=4",
                     "model.block.mlp.ffn=8",
                     "model.block.mlp.shared_ffn=12",
                     "model.block.mlp.shared_gate=true",
                     "model.block.mlp.shared_overlap=true",
                     "parallel.tensor=2",
                     "parallel.sequence_parallel=true",
                     "parallel.expert=2",
                     "parallel.expert_tensor=1",
                     "parallel.pipeline=2",
                     "schedule.type=\"zbv\"",
                     "batch.micro=1",
                     "placement.layout=\"E|t|t|L\""}},
        DeferredRun{"cp2_ep2_padded_to_capacity",
                    {"model.block.mlp.type=\"moe\"",
                     "model.block.mlp.experts=4",
                     "model.block.mlp.ffn=8",
                     "model.block.mlp.capacity_factor=1.0",
                     "model.block.mlp.pad_to_capacity=true",
                     "parallel.context=2",
                     "parallel.expert=2"}},
        DeferredRun{"cpu_tp2_dp2",
                    {"device.type=\"cpu\"", "parallel.tensor=2", "parallel.data=2"}}),
    [](const auto& info) { return info.param.name; });

class DeferredValidation : public ::testing::TestWithParam<const char*> {};

TEST_P(DeferredValidation, EqualsInline) {
  const auto loss = [](u64 seed) {
    double value = 0;
    TrainOptions options{.deferred_seed = seed};
    options.at_end = [&](RankRun& run) {
      const double mine = run.evaluation().validate(5).loss;
      if (run.mesh().rank() == 0) value = mine;
    };
    train(tiny_config(), {"parallel.tensor=2", "parallel.data=2", GetParam()}, options);
    return value;
  };
  const double inlined = loss(0);
  EXPECT_GT(inlined, 0);
  for (const u64 seed : kSeeds) EXPECT_EQ(loss(seed), inlined) << "seed " << seed;
}

INSTANTIATE_TEST_SUITE_P(SequenceParallel,
                         DeferredValidation,
                         ::testing::Values("parallel.sequence_parallel=false",
                                           "parallel.sequence_parallel=true"),
                         [](const auto& info) { return "case" + std::to_string(info.index); });

}  // namespace deferred_test
}  // namespace tessera::testing

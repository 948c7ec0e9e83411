// Replicas that each update a shard train the same bits as replicas that update all.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "layouts_support.hpp"

namespace tessera::testing {
namespace distributed_optimizer_test {

const std::string kDistributed = "optimizer.type=\"distributed\"";
const std::string kReplicated = "optimizer.type=\"replicated\"";
constexpr double kClip = 0.1;

// Small buckets, so that there are many; clipping in every step; no check that gathers parameters
// between steps, which is the plan's work.
Sets common() {
  return {fmt::format("optimizer.clip={}", kClip),
          "parallel.bucket_elements=3000",
          "check.replicas_every=0"};
}

// Some rows of the table say which optimizer they have.
void expect_same_bits(const Sets& sets, int steps = kTableSteps) {
  const Training replicated = train(tiny_config(), with(sets, {kReplicated}), {.steps = steps});
  const Training distributed = train(tiny_config(), with(sets, {kDistributed}), {.steps = steps});
  EXPECT_GT(std::ranges::min(replicated.norms), kClip) << "no step is clipped";
  EXPECT_EQ(distributed.losses, replicated.losses);
  EXPECT_EQ(distributed.norms, replicated.norms);
  EXPECT_TRUE(distributed.gradients == replicated.gradients);
  EXPECT_TRUE(distributed.parameters == replicated.parameters);
}

class Distributed : public ::testing::TestWithParam<TableRow> {};

TEST_P(Distributed, HasTheBitsOfReplicated) { expect_same_bits(with(common(), GetParam().sets)); }

INSTANTIATE_TEST_SUITE_P(Layouts,
                         Distributed,
                         ::testing::ValuesIn(table_layouts()),
                         [](const auto& info) { return info.param.name; });

class DistributedNarrow : public ::testing::TestWithParam<TableRow> {};

TEST_P(DistributedNarrow, HasTheBitsOfReplicated) {
  const Sets narrow = with(common(), {"parallel.gradient_dtype=\"bf16\""});
  expect_same_bits(with(narrow, GetParam().sets), 5);
}

INSTANTIATE_TEST_SUITE_P(
    Gradients,
    DistributedNarrow,
    ::testing::Values(
        TableRow{"dp2", {"parallel.data=2"}},
        TableRow{"dp8", {"parallel.data=8", "batch.micro=1"}},
        TableRow{"cpu_tp2_dp4", {"device.type=\"cpu\"", "parallel.tensor=2", "parallel.data=4"}},
        TableRow{"tp2_cp2_dp2_sp",
                 {"parallel.tensor=2",
                  "parallel.context=2",
                  "parallel.data=2",
                  "parallel.sequence_parallel=true"}},
        TableRow{"pp2_dp2", {"parallel.pipeline=2", "parallel.data=2", "schedule.type=\"1f1b\""}},
        TableRow{"bf16_dp4", {"parallel.data=4", "precision.compute=\"bf16\""}},
        TableRow{"fp16_cpu_dp4",
                 {"device.type=\"cpu\"",
                  "parallel.data=4",
                  "precision.compute=\"fp16\"",
                  "precision.loss_scale=1024"}}),
    [](const auto& info) { return info.param.name; });

class DistributedPrecision : public ::testing::TestWithParam<TableRow> {};

TEST_P(DistributedPrecision, HasTheBitsOfReplicated) {
  expect_same_bits(with(common(), GetParam().sets));
}

INSTANTIATE_TEST_SUITE_P(Layouts,
                         DistributedPrecision,
                         ::testing::Values(TableRow{"bf16_tp2_dp2",
                                                    {"parallel.tensor=2",
                                                     "parallel.data=2",
                                                     "precision.compute=\"bf16\""}},
                                           TableRow{"bf16_cpu_cp2_dp2",
                                                    {"device.type=\"cpu\"",
                                                     "parallel.context=2",
                                                     "parallel.data=2",
                                                     "precision.compute=\"bf16\""}},
                                           TableRow{"bf16_pp2_dp2",
                                                    {"parallel.pipeline=2",
                                                     "parallel.data=2",
                                                     "schedule.type=\"1f1b\"",
                                                     "precision.compute=\"bf16\""}},
                                           TableRow{"fp16_cpu_tp2_dp2",
                                                    {"device.type=\"cpu\"",
                                                     "parallel.tensor=2",
                                                     "parallel.data=2",
                                                     "precision.compute=\"fp16\"",
                                                     "precision.loss_scale=1024"}}),
                         [](const auto& info) { return info.param.name; });

class DistributedPipeline : public ::testing::TestWithParam<TableRow> {};

TEST_P(DistributedPipeline, HasTheBitsOfReplicated) {
  expect_same_bits(with(with(deep_model(), common()), GetParam().sets));
}

INSTANTIATE_TEST_SUITE_P(Layouts,
                         DistributedPipeline,
                         ::testing::ValuesIn(pipeline_layouts()),
                         [](const auto& info) { return info.param.name; });

// Experts' parameters have replicas, and so shards, of their own.
class DistributedExperts : public ::testing::TestWithParam<TableRow> {};

TEST_P(DistributedExperts, HaveTheBitsOfReplicated) {
  const Sets experts = {
      "model.block.mlp.type=\"moe\"", "model.block.mlp.experts=8", "model.block.mlp.ffn=8"};
  expect_same_bits(with(with(common(), experts), GetParam().sets));
}

INSTANTIATE_TEST_SUITE_P(
    Layouts,
    DistributedExperts,
    ::testing::Values(
        TableRow{"dp4_ep2", {"parallel.data=4", "parallel.expert=2"}},
        TableRow{"tp2_dp2_ep2_etp1",
                 {"parallel.tensor=2",
                  "parallel.data=2",
                  "parallel.expert=2",
                  "parallel.expert_tensor=1"}},
        TableRow{"pp2_dp4_ep2",
                 {"parallel.pipeline=2",
                  "parallel.data=4",
                  "parallel.expert=2",
                  "schedule.type=\"1f1b\"",
                  "batch.micro=1"}},
        TableRow{"cp2_dp2_ep2", {"parallel.context=2", "parallel.data=2", "parallel.expert=2"}},
        TableRow{"dp4_ep2_muon",
                 {"parallel.data=4", "parallel.expert=2", "optimizer.rule.type=\"muon\""}},
        TableRow{"cpu_bf16_dp4_ep2_etp2",
                 {"device.type=\"cpu\"",
                  "precision.compute=\"bf16\"",
                  "parallel.data=4",
                  "parallel.expert=2",
                  "parallel.expert_tensor=2"}}),
    [](const auto& info) { return info.param.name; });

// Parameters of several blocks of the norm, cut inside of blocks and between them.
TEST(DistributedNorm, OfManyBlocks) {
  const Sets wide = with(common(), {"model.hidden=64", "parallel.bucket_elements=50000"});
  expect_same_bits(with(wide, {"parallel.data=4"}), 4);
  expect_same_bits(with(wide, {"device.type=\"cpu\"", "parallel.data=4", "parallel.tensor=2"}), 4);
}

TEST(DistributedRules, AnyThatNeedsElements) {
  const Sets dp4 = with(common(), {"parallel.data=4"});
  expect_same_bits(with(dp4, {"optimizer.rule.type=\"sgd\"", "optimizer.rule.momentum=0.9"}));
  expect_same_bits(with(dp4, {"optimizer.rule.type=\"sgd\""}));
  expect_same_bits(with(dp4, {"optimizer.rule.type=\"lion\""}));
}

TEST(DistributedMemory, StateIsCutAmongTheReplicas) {
  const auto state_of = [](const Sets& sets) {
    i64 most = 0;
    std::mutex mutex;
    TrainOptions options;
    options.at_end = [&](RankRun& run) {
      i64 bytes = 0;
      for (const NamedState& state : run.step().optimizer().state()) bytes += state.tensor.bytes();
      const std::lock_guard lock(mutex);
      most = std::max(most, bytes);
    };
    train(tiny_config(), sets, options);
    return most;
  };
  const i64 whole = state_of({"parallel.data=4"});
  const i64 shard = state_of({"parallel.data=4", kDistributed});
  EXPECT_GE(shard, whole / 4);
  EXPECT_LE(shard, whole / 4 * 11 / 10) << "but for the gaps between parameters";
}

// Where a shard is cut shows in the last vector of a kernel, which must not round in its own way.
TEST(DistributedRules, MomentumOnTheCpuDevice) {
  const Sets sgd = {"optimizer.rule.type=\"sgd\"", "optimizer.rule.momentum=0.9"};
  expect_same_bits(with(with(common(), {"parallel.data=4", "device.type=\"cpu\""}), sgd));
}

TEST(DistributedRules, StateInBf16) {
  const Sets narrow = with(common(), {"parallel.data=4", "optimizer.state_dtype=\"bf16\""});
  const Sets sgd = {"optimizer.rule.type=\"sgd\"", "optimizer.rule.momentum=0.9"};
  const Sets beta = {"optimizer.rule.beta2=0.95"};
  expect_same_bits(with(narrow, beta), 5);
  expect_same_bits(with(with(narrow, beta), {"device.type=\"cpu\""}), 5);
  expect_same_bits(with(narrow, sgd), 5);
  expect_same_bits(with(narrow, {"optimizer.rule.type=\"lion\""}), 5);
  expect_same_bits(with(with(narrow, beta), {"optimizer.rule.type=\"muon\""}), 5);
  const Training wide =
      train(tiny_config(), with(beta, {"parallel.data=2"}), {.steps = kTableSteps});
  TrainOptions options{.steps = kTableSteps};
  options.at_end = [](RankRun& run) {
    for (const NamedState& state : run.step().optimizer().state()) {
      EXPECT_EQ(state.tensor.dtype(), DType::bf16);
    }
  };
  const Training rounded = train(
      tiny_config(), with(beta, {"parallel.data=2", "optimizer.state_dtype=\"bf16\""}), options);
  EXPECT_EQ(difference(rounded.losses, wide.losses, 1e-2, "loss"), "");
  EXPECT_NE(rounded.losses, wide.losses);
}

// A rule of whole matrices: each replica owns some parameters, and the bits are the same.
TEST(DistributedRules, WholeParametersHaveOwners) {
  const Sets muon = with(common(), {"parallel.data=4", "optimizer.rule.type=\"muon\""});
  expect_same_bits(muon);
  expect_same_bits(with(
      muon,
      {"parallel.pipeline=2", "schedule.type=\"1f1b\"", "parallel.data=2", "device.type=\"cpu\""}));
  expect_same_bits(with(muon, {"parallel.tensor=2", "parallel.data=2"}));
}

// Main values of 16-bit compute are those of the parameters that a replica owns, and no others.
TEST(DistributedRules, WholeParametersOf16BitCompute) {
  const Sets muon = with(common(),
                         {"parallel.data=4",
                          "optimizer.rule.type=\"muon\"",
                          "precision.compute=\"bf16\"",
                          "check.replicas_every=1"});
  expect_same_bits(muon);
  expect_same_bits(with(muon, {"device.type=\"cpu\"", "parallel.tensor=2"}));
  std::mutex mutex;
  std::map<std::string, int> owners;
  i64 most = 0, all = 0;
  TrainOptions options;
  options.at_end = [&](RankRun& run) {
    const std::lock_guard lock(mutex);
    all = run.model().memory().elements();
    most = std::max(most, run.model().memory().main().elements());
    for (const Parameter* p : run.parts().parameter_list()) owners[p->name] += p->main.defined();
  };
  train(tiny_config(), with(muon, {kDistributed}), options);
  for (const auto& [name, count] : owners) EXPECT_EQ(count, 1) << name;
  EXPECT_LT(most, all / 2) << "the largest parameter may be more than a quarter";
}

// The replica check reads parameters between steps: it gathers them, and the next step goes on.
TEST(DistributedCheck, SeesEqualReplicasAfterEveryStep) {
  const Sets sets = {"parallel.data=4", "parallel.bucket_elements=3000", kDistributed};
  const Training checked = train(tiny_config(), sets, {.steps = 4});
  const Training unchecked =
      train(tiny_config(), with(sets, {"check.replicas_every=0"}), {.steps = 4});
  EXPECT_TRUE(checked.parameters == unchecked.parameters);
}

}  // namespace distributed_optimizer_test
}  // namespace tessera::testing

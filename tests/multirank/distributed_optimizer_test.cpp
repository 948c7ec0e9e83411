// Replicas that each update a shard train the same bits as replicas that update all.
#include <gmock/gmock.h>

#include <algorithm>
#include <mutex>

#include "layouts_support.hpp"

namespace tessera::testing {
namespace distributed_optimizer_test {

const std::string kDistributed = "optimizer.type=\"distributed\"";
constexpr double kClip = 0.1;

// Small buckets, so that there are many; clipping in every step; no check that gathers parameters
// between steps, which is the plan's work.
Sets common() {
  return {fmt::format("optimizer.clip={}", kClip),
          "parallel.bucket_elements=3000",
          "check.replicas_every=0"};
}

void expect_same_bits(const Sets& sets, int steps = kTableSteps) {
  const Training replicated = train(tiny_config(), sets, {.steps = steps});
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

class DistributedPipeline : public ::testing::TestWithParam<TableRow> {};

TEST_P(DistributedPipeline, HasTheBitsOfReplicated) {
  expect_same_bits(with(with(deep_model(), common()), GetParam().sets));
}

INSTANTIATE_TEST_SUITE_P(Layouts,
                         DistributedPipeline,
                         ::testing::ValuesIn(pipeline_layouts()),
                         [](const auto& info) { return info.param.name; });

// Parameters of several blocks of the norm, cut inside of blocks and between them.
TEST(DistributedNorm, OfManyBlocks) {
  const Sets wide = with(common(), {"model.hidden=64", "parallel.bucket_elements=50000"});
  expect_same_bits(with(wide, {"parallel.data=4"}), 4);
  expect_same_bits(with(wide, {"device.type=\"cpu\"", "parallel.data=4", "parallel.tensor=2"}), 4);
}

TEST(DistributedRules, AnyThatNeedsElements) {
  const Sets dp4 = with(common(), {"parallel.data=4"});
  expect_same_bits(with(dp4, {"optimizer.rule.type=\"sgd\"", "optimizer.rule.momentum=0.9"}), 5);
  expect_same_bits(with(dp4, {"optimizer.rule.type=\"sgd\""}), 5);
  expect_same_bits(with(dp4, {"optimizer.rule.type=\"lion\""}), 5);
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

// FP32 parameters and gradients: 8 + 8/d bytes for each, and the padding of buckets.
TEST(DistributedMemory, BytesOfAParameter) {
  for (const i64 replicas : {1, 2, 4}) {
    SCOPED_TRACE(replicas);
    std::mutex mutex;
    TrainOptions options;
    options.at_end = [&](RankRun& run) {
      const MemoryStats memory = run.device().memory();
      i64 elements = 0;
      for (const Parameter* p : run.parts().parameter_list()) elements += p->local.elements();
      const auto holds = [&](Category category, i64 bytes) {
        const i64 held = memory.bytes[static_cast<std::size_t>(category)];
        const std::lock_guard lock(mutex);
        EXPECT_GE(held, bytes * elements);
        // The allocator rounds up by less than 1/8; tables of ranges and scalars are small.
        EXPECT_LE(held, bytes * elements * 9 / 8 + 16384) << category_name(category);
      };
      holds(Category::parameters, 4);
      holds(Category::gradients, 4);
      holds(Category::optimizer, 8 / replicas);
    };
    train(tiny_config(),
          {"model.hidden=64", fmt::format("parallel.data={}", replicas), kDistributed},
          options);
  }
}

// Where a shard is cut shows in the last vector of a kernel, which must not round in its own way.
TEST(DistributedRules, MomentumOnTheCpuDevice) {
  const Sets sgd = {"optimizer.rule.type=\"sgd\"", "optimizer.rule.momentum=0.9"};
  expect_same_bits(with(with(common(), {"parallel.data=4", "device.type=\"cpu\""}), sgd));
}

TEST(DistributedRules, StateInBf16) {
  const Sets narrow = with(common(), {"parallel.data=4", "optimizer.state_dtype=\"bf16\""});
  const Sets sgd = {"optimizer.rule.type=\"sgd\"", "optimizer.rule.momentum=0.9"};
  expect_same_bits(narrow, 5);
  expect_same_bits(with(narrow, {"device.type=\"cpu\""}), 5);
  expect_same_bits(with(narrow, sgd), 5);
  const Training wide = train(tiny_config(), {"parallel.data=2"}, {.steps = kTableSteps});
  TrainOptions options{.steps = kTableSteps};
  options.at_end = [](RankRun& run) {
    for (const NamedState& state : run.step().optimizer().state()) {
      EXPECT_EQ(state.tensor.dtype(), DType::bf16);
    }
  };
  const Training rounded =
      train(tiny_config(), {"parallel.data=2", "optimizer.state_dtype=\"bf16\""}, options);
  EXPECT_EQ(difference(rounded.losses, wide.losses, 1e-2, "loss"), "");
  EXPECT_NE(rounded.losses, wide.losses);
}

// A rule of whole matrices: each replica owns some parameters, and the bits are the same.
TEST(DistributedRules, WholeParametersHaveOwners) {
  const Sets muon = with(common(), {"parallel.data=4", "optimizer.rule.type=\"muon\""});
  expect_same_bits(muon, 5);
  expect_same_bits(with(muon,
                        {"parallel.pipeline=2",
                         "schedule.type=\"1f1b\"",
                         "parallel.data=2",
                         "device.type=\"cpu\""}),
                   5);
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

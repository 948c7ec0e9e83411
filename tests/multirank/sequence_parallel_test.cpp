// What sequence parallelism promises beyond one loss curve: less activation memory, and a clear
// refusal where rows do not divide. The loss curves are in invariant_test.cpp.
#include <gmock/gmock.h>

#include <mutex>

#include "invariant_support.hpp"
#include "mutants_support.hpp"

namespace tessera::testing {
namespace sequence_parallel_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Sizes of which every share fills the allocator's size classes exactly, but for vectors of rows.
constexpr i64 kTensor = 4, kSamples = 8, kPositions = 64, kHidden = 64;
constexpr i64 kRows = kSamples * kPositions, kFloat = 4;

// The largest activation peak of a rank.
i64 activation_peak(i64 layers, bool sequence_parallel) {
  i64 peak = 0;
  std::mutex mutex;
  const auto read = [&](RankRun& run) {
    const std::lock_guard lock(mutex);
    const MemoryStats stats = run.device().memory();
    peak = std::max(peak, stats.peak[static_cast<std::size_t>(Category::activations)]);
  };
  train(tiny_config(),
        {"device.type=\"cpu\"",
         fmt::format("batch.micro={}", kSamples),
         fmt::format("model.layers={}", layers),
         fmt::format("model.hidden={}", kHidden),
         fmt::format("batch.sequence_length={}", kPositions),
         fmt::format("parallel.tensor={}", kTensor),
         fmt::format("parallel.sequence_parallel={}", sequence_parallel)},
        {.at_end = read});
  return peak;
}

// What a layer keeps from forward to backward. Full size without sequence parallelism: the input of
// each norm, and its output, which is the next linear's input. Cut over the tensor group either
// way: 3 h projections, h of the heads' results, 4 h before and 4 h after the GELU. Dropout keeps
// no mask.
constexpr i64 layer_bytes(bool sequence_parallel) {
  constexpr i64 kActivation = kRows * kHidden * kFloat;
  return 4 * kActivation / (sequence_parallel ? kTensor : 1) +
         (3 + 1 + 4 + 4) * kActivation / kTensor;
}
// Each norm has mean and 1 / deviation, each head of this rank (one) a logarithm a row.
constexpr i64 statistics_bytes(bool sequence_parallel) {
  return (4 * kRows / (sequence_parallel ? kTensor : 1) + kRows) * kFloat;
}

TEST(SequenceParallelMemory, ALayerKeepsOnlyItsRows) {
  for (const bool sequence_parallel : {false, true}) {
    SCOPED_TRACE(sequence_parallel);
    constexpr i64 kFew = 2, kMany = 6;
    const i64 a_layer =
        (activation_peak(kMany, sequence_parallel) - activation_peak(kFew, sequence_parallel)) /
        (kMany - kFew);
    EXPECT_EQ(a_layer, layer_bytes(sequence_parallel) + statistics_bytes(sequence_parallel));
  }
}

TEST(SequenceParallelMemory, ThePeakFallsByTheRowsThatOthersKeep) {
  constexpr i64 kLayers = 6;
  const i64 whole = activation_peak(kLayers, false), part = activation_peak(kLayers, true);
  EXPECT_LE(part, whole - kLayers * (layer_bytes(false) - layer_bytes(true)));
}

TEST(SequenceParallelRows, ThatDoNotDivideAreRefused) {
  const auto run = [] {
    train(tiny_config(),
          {"batch.micro=1",
           "batch.sequence_length=6",
           "parallel.tensor=4",
           "parallel.sequence_parallel=true"},
          {});
  };
  EXPECT_THAT(run,
              ::testing::ThrowsMessage<ConfigError>(
                  AllOf(HasSubstr("[parallel] sequence_parallel cuts the 6 rows of a microbatch"),
                        HasSubstr("do not divide among tensor = 4 ranks"))));
}

// Row biases and norms have partial gradients; the sum is what keeps the replicas equal, which the
// check after every step of tiny_config() asserts.
TEST(SequenceParallelReplicas, AMissingSumIsFoundByTheReplicaCheck) {
  const Sets rows = {"parallel.tensor=2", "parallel.sequence_parallel=true"};
  EXPECT_NO_THROW(train(tiny_config(), rows, {.steps = 3}));
  const auto run = [&] {
    train(tiny_config(),
          with(rows,
               {"model.block.norm.type=\"mutant_norm\"",
                "model.block.norm.mistake=\"gradient_not_summed\""}),
          {.host = &mutants()});
  };
  EXPECT_THAT(run,
              ::testing::ThrowsMessage<Error>(AllOf(HasSubstr("replicas of parameter \"layers.0."),
                                                    HasSubstr("differ within tp[0,1]"))));
}

}  // namespace sequence_parallel_test
}  // namespace tessera::testing

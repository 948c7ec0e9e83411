// What recomputation promises beyond one loss curve: less is kept from forward to backward.
#include <gtest/gtest.h>

#include <array>

#include "invariant_support.hpp"

namespace tessera::testing {
namespace recompute_test {

// Sizes that fill the allocator's size classes exactly.
constexpr i64 kSamples = 8, kPositions = 64, kHidden = 64, kRows = kSamples * kPositions;
constexpr i64 kActivation = kRows * kHidden * 4;

Sets sized(i64 layers, const Sets& more) {
  return with({"device.type=\"cpu\"",
               fmt::format("batch.micro={}", kSamples),
               fmt::format("model.layers={}", layers),
               fmt::format("model.hidden={}", kHidden),
               fmt::format("batch.sequence_length={}", kPositions)},
              more);
}

i64 activations_peak(RankRun& run) {
  return run.device().memory().peak[static_cast<std::size_t>(Category::activations)];
}

i64 activation_peak(i64 layers, const Sets& more) {
  i64 peak = 0;
  train(tiny_config(), sized(layers, more), {.at_end = [&](RankRun& run) {
          peak = activations_peak(run);
        }});
  return peak;
}

// What one more layer adds to the peak.
i64 a_layer(const Sets& more) {
  constexpr i64 kFew = 3, kMany = 7;
  return (activation_peak(kMany, more) - activation_peak(kFew, more)) / (kMany - kFew);
}

TEST(Recompute, FullKeepsTheInputOfEachBlockOnly) {
  EXPECT_EQ(a_layer({"recompute.mode=\"full\""}), kActivation);
}

TEST(Recompute, SelectiveKeepsTheInputOfEachNamedPhase) {
  const i64 all = a_layer({});
  const i64 attention = a_layer({"recompute.mode=\"selective\""});
  const i64 mlp = a_layer({"recompute.mode=\"selective\"", "recompute.scopes=[\"mlp\"]"});
  const i64 both =
      a_layer({"recompute.mode=\"selective\"", "recompute.scopes=[\"attn\", \"mlp\"]"});
  // Per activation: the attention phase keeps norm output 1, projections 3, heads 1, and of each
  // row two statistics of the norm and four logarithms; the MLP norm output 1 and 8 around the
  // GELU.
  constexpr i64 kRowOfFloats = kRows * 4;
  EXPECT_EQ(all - attention, 5 * kActivation + (2 + 4) * kRowOfFloats);
  EXPECT_EQ(all - mlp, 9 * kActivation + 2 * kRowOfFloats);
  // Two phases of a layer form one recomputed range: the input of the second is not kept either.
  EXPECT_EQ(both, kActivation);
}

// Peaks of a pipeline of two ranks, by rank.
std::array<i64, 2> pipeline_peaks(std::string_view schedule, std::string_view mode) {
  std::array<i64, 2> peaks{};
  train(tiny_config(),
        sized(4,
              {"batch.global=32",
               "parallel.pipeline=2",
               fmt::format("schedule.type=\"{}\"", schedule),
               fmt::format("recompute.mode=\"{}\"", mode)}),
        {.at_end = [&](RankRun& run) {
          peaks[static_cast<std::size_t>(run.mesh().rank())] = activations_peak(run);
        }});
  return peaks;
}

TEST(Recompute, LowersThePeakOfEveryStage) {
  const auto kept = pipeline_peaks("1f1b", "none"), again = pipeline_peaks("1f1b", "full");
  // The first rank has two microbatches live, of which one keeps the inputs of its two blocks only.
  EXPECT_LT(again[0], kept[0] / 2);
  EXPECT_LT(again[1], kept[1]);
}

// kernel/train/README.md says why: at its peak each microbatch of the last rank has had its input
// half, and with it its recomputation.
TEST(Recompute, SavesNothingOnTheLastStageOfZbH1) {
  const auto kept = pipeline_peaks("zb_h1", "none"), again = pipeline_peaks("zb_h1", "full");
  EXPECT_LT(again[0], kept[0]);
  EXPECT_EQ(again[1], kept[1]);
}

TEST(Recompute, ChangesNoBit) {
  const Training kept = train(tiny_config(), {}, {.steps = 3});
  for (const char* mode : {"full", "selective"}) {
    const Training again =
        train(tiny_config(), {fmt::format("recompute.mode=\"{}\"", mode)}, {.steps = 3});
    EXPECT_EQ(again.losses, kept.losses) << mode;
    EXPECT_TRUE(again.gradients == kept.gradients) << mode;
    EXPECT_TRUE(again.parameters == kept.parameters) << mode;
  }
}

}  // namespace recompute_test
}  // namespace tessera::testing

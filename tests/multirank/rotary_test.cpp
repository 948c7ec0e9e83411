// Rotary positions: the frequencies of each type, and what the layer does with them.
#include <gmock/gmock.h>

#include <cmath>

#include "tensor_parallel_support.hpp"
#include "tessera/rotary.hpp"
#include "tests/common/error_of.hpp"

namespace tessera::testing {
namespace rotary_test {

using ::testing::HasSubstr;

RotaryAngles angles(const std::string& type, const Given& given) {
  RotaryAngles made;
  local_world().run(tensor_ranks(1, DType::fp64), [&](LocalRank& rank) {
    made = rank.build<Rotary>("rotary", type, given)->angles();
  });
  return made;
}

void expect_frequencies(const RotaryAngles& found, const std::vector<double>& wanted) {
  ASSERT_EQ(found.frequencies.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(found.frequencies[i] / wanted[i], 1, 1e-6) << "pair " << i;
  }
}

// Of transformers 5.23 (modeling_rope_utils), which computes them in single precision.
TEST(RotaryTypes, HaveTheFrequenciesOfTransformers) {
  expect_frequencies(angles("default", {{"head_size", 8}}), {1, 0.1, 0.01, 0.001});
  expect_frequencies(angles("linear", {{"head_size", 8}, {"factor", 4.0}}),
                     {0.25, 0.025, 0.0025, 0.00025});
  const Given llama = {{"head_size", 16},
                       {"base", 5e5},
                       {"factor", 8.0},
                       {"low_frequency_factor", 1.0},
                       {"high_frequency_factor", 4.0},
                       {"original_positions", 8192}};
  expect_frequencies(angles("llama3", llama),
                     {1.0,
                      0.193922758102417,
                      0.03760603070259094,
                      0.00729266507551074,
                      0.0005248460220173001,
                      3.428102354519069e-05,
                      6.647869668086059e-06,
                      1.289173155782919e-06});
  const Given yarn = {{"head_size", 16}, {"factor", 4.0}, {"original_positions", 4096}};
  const RotaryAngles stretched = angles("yarn", yarn);
  expect_frequencies(stretched,
                     {1.0,
                      0.3162277638912201,
                      0.10000000149011612,
                      0.025693506002426147,
                      0.00624999962747097,
                      0.0013834965648129582,
                      0.0002500000118743628,
                      7.905694656074047e-05});
  EXPECT_NEAR(stretched.scale, 1.138629436111989, 1e-15);
  Given other = yarn;
  other.insert(other.end(), {{"beta_fast", 16.0}, {"beta_slow", 2.0}, {"attention_factor", 1.5}});
  const RotaryAngles given = angles("yarn", other);
  expect_frequencies(given,
                     {1.0,
                      0.3162277638912201,
                      0.10000000149011612,
                      0.03162277862429619,
                      0.007499999366700649,
                      0.0015811389312148094,
                      0.0002500000118743628,
                      7.905694656074047e-05});
  EXPECT_EQ(given.scale, 1.5);
}

TEST(RotaryTypes, TurnAShareOfAHead) {
  const RotaryAngles half = angles("default", {{"head_size", 16}, {"fraction", 0.5}});
  expect_frequencies(half, {1, 0.1, 0.01, 0.001});  // as of a head of 8
  EXPECT_THAT(error_of<ConfigError>([] {
                angles("default", {{"head_size", 10}, {"fraction", 0.5}});
              }),
              HasSubstr("rotary positions turn pairs of features, and 0.5 of a head's 10 are 5: an "
                        "even number of at least 2 is wanted"));
}

// By the formula, with angles that are no model's.
TEST(RotaryOperation, TurnsByThePositionAndBack) {
  local_world().run(tensor_ranks(1, DType::fp64), [](LocalRank& rank) {
    Context& cx = rank.context();
    constexpr i64 kPairs = 2, kPositions = 5;
    const std::vector<double> frequencies = {0.7, 0.05};
    Values table;
    for (i64 p = 0; p < kPositions; ++p) {
      for (const double f : frequencies) table.push_back(std::cos(static_cast<double>(p) * f));
      for (const double f : frequencies) table.push_back(std::sin(static_cast<double>(p) * f));
    }
    const Tensor angles = rank.tensor({kPositions, 2, kPairs}, table);
    const Tensor positions = rank.tensor({2}, DType::i64, {3, 1});
    const Values x = {1, 2, 3, 4, 9, 5, 6, 7, 8, 9};  // a head of 4, and a feature that stays
    for (const bool interleaved : {false, true}) {
      const ops::RotaryShape shape{.heads = 1, .head_dim = 4, .interleaved = interleaved};
      const Tensor rows = rank.tensor({2, 5}, x);
      const Values y = read(ops::rotary(cx, rows, positions, angles, shape));
      for (std::size_t row = 0; row < 2; ++row) {
        const double position = row == 0 ? 3 : 1;
        for (std::size_t pair = 0; pair < kPairs; ++pair) {
          const std::size_t a = 5 * row + (interleaved ? 2 * pair : pair);
          const std::size_t b = interleaved ? a + 1 : a + kPairs;
          const double angle = position * frequencies[pair];
          EXPECT_NEAR(y[a], x[a] * std::cos(angle) - x[b] * std::sin(angle), 1e-14);
          EXPECT_NEAR(y[b], x[b] * std::cos(angle) + x[a] * std::sin(angle), 1e-14);
        }
        EXPECT_EQ(y[5 * row + 4], 9);
      }
      const Tensor turned = rank.tensor({2, 5}, y);
      TensorArg heads = turned.arg();
      heads.rank = 3;
      heads.shape[1] = 1;
      heads.shape[2] = heads.strides[1] = 4;
      heads.strides[2] = 1;
      ops::run(cx, RotaryArgs{heads, positions.arg(), angles.arg(), heads, interleaved, true});
      EXPECT_THAT(read(turned), ::testing::Pointwise(::testing::DoubleNear(1e-14), x));
      EXPECT_EQ(read(rows), x) << "rows that another handle holds stay";
    }
  });
}

TEST(RotaryLayers, ShareATableAndRefuseOddHeads) {
  LocalWorldOptions options = tensor_ranks(1, DType::fp64);
  options.batch.sequence = 2;
  options.values = {{"c.rotary.base", 5e5}};
  for (const char* layer : {"a", "b", "c", "d", "e", "f"}) {
    options.values.emplace_back(fmt::format("{}.rotary.type", layer), "default");
  }
  local_world().run(options, [](LocalRank& rank) {
    const auto attention = [&](const std::string& scope, i64 heads, i64 positions = 4) {
      return rank.build<Layer>(
          scope, "self_attention", {{"hidden", 18}, {"heads", heads}, {"positions", positions}});
    };
    (void)attention("a", 3);
    (void)attention("b", 3);
    EXPECT_EQ(rank.buffers().size(), 1U);
    (void)attention("c", 3);
    EXPECT_EQ(rank.buffers().size(), 2U);
    (void)attention("e", 3, 5);
    EXPECT_EQ(rank.buffers().size(), 3U) << "a longer table is another one";
    EXPECT_THAT(error_of<ConfigError>([&] { (void)attention("f", 3, 1); }),
                HasSubstr("1 are fewer than the 2 of a sample"));
    EXPECT_FALSE(rank.buffers()[0]->saved);
    EXPECT_EQ(read(rank.buffers()[0]->value)[6], std::cos(1));  // position 1, pair 0
    EXPECT_THAT(error_of<ConfigError>([&] { (void)attention("d", 2); }),
                HasSubstr("rotary positions turn pairs of features, 9 is odd"));
  });
}

}  // namespace rotary_test
}  // namespace tessera::testing

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "kernel/train/run/text_sampler.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace sample_token_test {

// How often each of 100000 evenly spaced numbers chooses each token.
std::vector<double> frequencies(const std::vector<float>& logits, double temperature) {
  constexpr int kDraws = 100000;
  std::vector<double> counts(logits.size(), 0);
  for (int i = 0; i < kDraws; ++i) {
    const i32 token = sample_token(logits, temperature, (i + 0.5) / kDraws);
    counts.at(static_cast<std::size_t>(token)) += 1.0 / kDraws;
  }
  return counts;
}

TEST(SampleToken, FollowsTheProbabilities) {
  const std::vector<float> logits = {std::log(1.0F), std::log(2.0F), std::log(5.0F)};
  EXPECT_THAT(frequencies(logits, 1),
              ::testing::Pointwise(::testing::DoubleNear(1e-4), {0.125, 0.25, 0.625}));
  // At temperature 1/2 weights are squared: 1, 4, 25.
  EXPECT_THAT(frequencies(logits, 0.5),
              ::testing::Pointwise(::testing::DoubleNear(1e-4), {1 / 30.0, 4 / 30.0, 25 / 30.0}));
}

TEST(SampleToken, LargeLogitsDoNotOverflow) {
  EXPECT_THAT(frequencies({1e30F, 1e30F, -1e30F}, 1),
              ::testing::Pointwise(::testing::DoubleNear(1e-4), {0.5, 0.5, 0.0}));
}

TEST(SampleToken, TemperatureZeroTakesTheBest) {
  for (const double uniform : {0.0, 0.5, 0.999}) {
    EXPECT_EQ(sample_token({1, 3, 2}, 0, uniform), 1);
  }
}

TEST(SampleToken, EndsOfTheRange) {
  EXPECT_EQ(sample_token({0, 0}, 1, 0), 0);
  EXPECT_EQ(sample_token({0, 0}, 1, std::nextafter(1.0, 0.0)), 1);
}

TEST(SampleToken, WhatIsNoProbabilityIsAnError) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(sample_token({}, 1, 0.5), Error);
  EXPECT_THROW(sample_token({nan, 1}, 1, 0.5), Error);
  EXPECT_THROW(sample_token({1, nan}, 1, 0.5), Error);
  EXPECT_THROW(sample_token({1, std::numeric_limits<float>::infinity()}, 0, 0.5), Error);
}

}  // namespace sample_token_test
}  // namespace tessera

// Closed forms; tests/oracle/sampling.py compares with the processors of transformers.
#include "kernel/train/run/sampling.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "tessera/error.hpp"
#include "tessera/random.hpp"
#include "tests/common/error_of.hpp"

namespace tessera {
namespace sampling_test {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

// Logits of these probabilities, or of what is proportional to them.
std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

std::vector<double> probabilities(std::vector<double> weights) {
  double sum = 0;
  for (const double weight : weights) sum += weight;
  for (double& weight : weights) weight /= sum;
  return weights;
}

std::vector<double> probabilities(const std::vector<double>& of, const Sampling& sampling) {
  return probabilities(token_weights(logits_of(of), {}, sampling));
}

auto near(std::vector<double> expected) { return Pointwise(DoubleNear(1e-6), std::move(expected)); }

// How often each of 100000 evenly spaced numbers chooses each token.
std::vector<double> frequencies(const std::vector<float>& logits, double temperature) {
  constexpr int kDraws = 100000;
  std::vector<double> counts(logits.size(), 0);
  for (int i = 0; i < kDraws; ++i) {
    const i32 token =
        choose_token(token_weights(logits, {}, {.temperature = temperature}), (i + 0.5) / kDraws);
    counts.at(static_cast<std::size_t>(token)) += 1.0 / kDraws;
  }
  return counts;
}

TEST(Sampling, FollowsTheProbabilities) {
  const std::vector<float> logits = logits_of({1, 2, 5});
  EXPECT_THAT(frequencies(logits, 1), Pointwise(DoubleNear(1e-4), {0.125, 0.25, 0.625}));
  // At temperature 1/2 weights are squared: 1, 4, 25.
  EXPECT_THAT(frequencies(logits, 0.5), Pointwise(DoubleNear(1e-4), {1 / 30., 4 / 30., 25 / 30.}));
}

TEST(Sampling, LargeLogitsDoNotOverflow) {
  EXPECT_THAT(frequencies({1e30F, 1e30F, -1e30F}, 1), Pointwise(DoubleNear(1e-4), {0.5, 0.5, 0.0}));
}

TEST(Sampling, TemperatureZeroTakesTheFirstOfTheBest) {
  EXPECT_THAT(token_weights({1, 3, 2, 3}, {}, {.temperature = 0}), ElementsAre(0, 1, 0, 0));
  // Tokens of the text are less likely, whatever the temperature.
  EXPECT_THAT(token_weights({1, 3, 2}, {1}, {.temperature = 0, .repetition_penalty = 2}),
              ElementsAre(0, 0, 1));
}

TEST(Sampling, TheEndsOfTheRangeChooseTokensThatHaveAWeight) {
  const double last = std::nextafter(1.0, 0.0);
  EXPECT_EQ(choose_token({1, 1}, 0), 0);
  EXPECT_EQ(choose_token({1, 1}, last), 1);
  EXPECT_EQ(choose_token({0, 1, 0}, 0), 1);
  EXPECT_EQ(choose_token({0, 1, 0}, last), 1);
  EXPECT_EQ(choose_token({0.1, 0.2, 0}, last), 1);
  EXPECT_THROW(choose_token({0, 0}, 0.5), Error);
}

TEST(Sampling, WhatIsNoProbabilityIsAnError) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinite = std::numeric_limits<float>::infinity();
  EXPECT_THROW(token_weights({}, {}, {}), Error);
  EXPECT_THROW(token_weights({nan, 1}, {}, {}), Error);
  EXPECT_THROW(token_weights({1, nan}, {}, {}), Error);
  EXPECT_THROW(token_weights({1, infinite}, {}, {.temperature = 0}), Error);
}

TEST(Sampling, TopKKeepsWhatIsAsLikelyAsTheKth) {
  const std::vector<double> p = {0.1, 0.2, 0.4, 0.2, 0.1};
  EXPECT_THAT(probabilities(p, {.top_k = 1}), near({0, 0, 1, 0, 0}));
  EXPECT_THAT(probabilities(p, {.top_k = 2}), near({0, .25, .5, .25, 0}));
  EXPECT_THAT(probabilities(p, {.top_k = 3}), near({0, .25, .5, .25, 0}));
  EXPECT_THAT(probabilities(p, {.top_k = 4}), near(p));
  EXPECT_THAT(probabilities(p, {.top_k = 1000}), near(p));
}

TEST(Sampling, TopPKeepsTheFewestThatHaveIt) {
  const std::vector<double> p = {0.1, 0.3, 0.4, 0.2};
  EXPECT_THAT(probabilities(p, {.top_p = 1e-9}), near({0, 0, 1, 0}));
  EXPECT_THAT(probabilities(p, {.top_p = 0.39}), near({0, 0, 1, 0}));
  EXPECT_THAT(probabilities(p, {.top_p = 0.41}), near({0, 3 / 7., 4 / 7., 0}));
  EXPECT_THAT(probabilities(p, {.top_p = 0.69}), near({0, 3 / 7., 4 / 7., 0}));
  EXPECT_THAT(probabilities(p, {.top_p = 0.71}), near({0, 3 / 9., 4 / 9., 2 / 9.}));
  EXPECT_THAT(probabilities(p, {.top_p = 0.91}), near(p));
  // Of equal ones the first stay, as the first is taken at temperature 0.
  EXPECT_THAT(probabilities({0.25, 0.25, 0.25, 0.25}, {.top_p = 0.5}), near({.5, .5, 0, 0}));
}

TEST(Sampling, MinPIsAShareOfTheMostLikely) {
  const std::vector<double> p = {0.1, 0.3, 0.4, 0.2};
  EXPECT_THAT(probabilities(p, {.min_p = 0.24}), near(p));
  EXPECT_THAT(probabilities(p, {.min_p = 0.26}), near({0, 3 / 9., 4 / 9., 2 / 9.}));
  EXPECT_THAT(probabilities(p, {.min_p = 1}), near({0, 0, 1, 0}));
}

TEST(Sampling, ThePenaltyTakesEachTokenOnce) {
  const std::vector<float> logits = {2, -1, 0, 4};
  const Sampling sampling = {.repetition_penalty = 2};
  EXPECT_THAT(token_weights(logits, {1, 3, 3, 1, 900}, sampling),
              Pointwise(DoubleNear(1e-12), {1., std::exp(-4.), std::exp(-2.), 1.}));
}

// Each step sees what the steps before it left: top_p of {0.4, 0.3} is not that of all.
TEST(Sampling, TheStepsHaveAnOrder) {
  const std::vector<double> p = {0.1, 0.3, 0.4, 0.2};
  EXPECT_THAT(probabilities(p, {.top_k = 2, .top_p = 0.55}), near({0, 0, 1, 0}));
  EXPECT_THAT(probabilities(p, {.top_p = 0.55}), near({0, 3 / 7., 4 / 7., 0}));
  // The temperature comes before: 1/2 squares 0.1, 0.3, 0.4, 0.2 to 1, 9, 16, 4.
  EXPECT_THAT(probabilities(p, {.temperature = 0.5, .min_p = 0.3}), near({0, .36, .64, 0}));
}

TEST(Sampling, DrawsDependOnSeedPromptAndPosition) {
  EXPECT_EQ(sampling_number(7, 0, 12), random_uniform(random_key(7, "generate"), 12));
  std::set<double> drawn;
  for (const u64 seed : {1, 2}) {
    for (const i64 prompt : {0, 1, 2, 10}) {
      for (const i64 position : {0, 1, 2}) drawn.insert(sampling_number(seed, prompt, position));
    }
  }
  EXPECT_EQ(drawn.size(), 2U * 4 * 3);
}

TEST(Sampling, BoundsAreNamedByTheirFlag) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinite = std::numeric_limits<double>::infinity();
  const auto refused = [](const Sampling& sampling) {
    return testing::error_of<ConfigError>([&] { check_sampling(sampling); });
  };
  check_sampling({});
  check_sampling({.top_k = 1, .top_p = 1e-300, .min_p = 1, .repetition_penalty = 1000});
  EXPECT_EQ(refused({.top_p = 0}), "--top-p 0: above 0 and at most 1");
  EXPECT_EQ(refused({.top_p = -0.5}), "--top-p -0.5: above 0 and at most 1");
  EXPECT_EQ(refused({.top_p = 1.5}), "--top-p 1.5: above 0 and at most 1");
  EXPECT_EQ(refused({.top_p = nan}), "--top-p nan: above 0 and at most 1");
  EXPECT_EQ(refused({.top_k = 0}), "--top-k 0: at least 1 and at most 16777216");
  EXPECT_EQ(refused({.top_k = -3}), "--top-k -3: at least 1 and at most 16777216");
  EXPECT_EQ(refused({.top_k = i64{1} << 40}),
            "--top-k 1099511627776: at least 1 and at most 16777216");
  EXPECT_EQ(refused({.min_p = -0.1}), "--min-p -0.1: at least 0 and at most 1");
  EXPECT_EQ(refused({.min_p = 1.1}), "--min-p 1.1: at least 0 and at most 1");
  EXPECT_EQ(refused({.min_p = nan}), "--min-p nan: at least 0 and at most 1");
  EXPECT_EQ(refused({.repetition_penalty = 0}),
            "--repetition-penalty 0: at least 0.001 and at most 1000");
  EXPECT_EQ(refused({.repetition_penalty = infinite}),
            "--repetition-penalty inf: at least 0.001 and at most 1000");
  EXPECT_EQ(refused({.repetition_penalty = nan}),
            "--repetition-penalty nan: at least 0.001 and at most 1000");
  EXPECT_EQ(refused({.temperature = 0, .top_p = 0.5}),
            "--top-p 0.5: no effect with --temperature 0, which takes the most likely token");
  EXPECT_EQ(refused({.temperature = 0, .top_k = 3}),
            "--top-k 3: no effect with --temperature 0, which takes the most likely token");
  EXPECT_EQ(refused({.temperature = 0, .min_p = 0.1}),
            "--min-p 0.1: no effect with --temperature 0, which takes the most likely token");
}

}  // namespace sampling_test
}  // namespace tessera

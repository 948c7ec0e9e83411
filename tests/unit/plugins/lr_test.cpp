#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tessera/optimizer.hpp"
#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera {
namespace lr_test {

using ::testing::HasSubstr;

std::vector<double> rates(std::string_view type, const std::string& keys, i64 steps) {
  LrArguments arguments{steps};
  const auto lr = make_plugin<LrSchedule>(type, keys, arguments);
  std::vector<double> out;
  for (i64 n = 1; n <= steps; ++n) out.push_back(lr->rate(n));
  return out;
}

void expect_rates(const std::vector<double>& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-14) << i;
}

TEST(LearningRate, ConstantRisesAndStays) {
  expect_rates(rates("constant", "peak = 0.4\nwarmup_steps = 4", 6), {.1, .2, .3, .4, .4, .4});
  expect_rates(rates("constant", "peak = 0.4", 2), {.4, .4});
}

TEST(LearningRate, LinearFallsToMin) {
  EXPECT_EQ(rates("linear", "peak = 1\nmin = 0.2\nwarmup_share = 0.34", 6),  // 2.04 steps
            rates("linear", "peak = 1\nmin = 0.2\nwarmup_steps = 2", 6));
  EXPECT_EQ(rates("constant", "peak = 1\nwarmup_share = 0.5", 6),
            rates("constant", "peak = 1\nwarmup_steps = 3", 6));
  expect_rates(rates("linear", "peak = 1\nmin = 0.2\nwarmup_steps = 2", 6),
               {.5, 1, .8, .6, .4, .2});
  // Two steps beyond the end of the decay.
  expect_rates(rates("linear", "peak = 1\nmin = 0.2\ndecay_steps = 4", 6),
               {.8, .6, .4, .2, .2, .2});
}

TEST(LearningRate, CosineFallsToMin) {
  const double half = std::sqrt(0.5);  // cos(pi / 4)
  expect_rates(rates("cosine", "peak = 3\nmin = 1\nwarmup_steps = 1", 6),
               {3,
                2 + std::cos(M_PI * .2),
                2 + std::cos(M_PI * .4),
                2 + std::cos(M_PI * .6),
                2 + std::cos(M_PI * .8),
                1});
  expect_rates(rates("cosine", "peak = 3\nmin = 1\ndecay_steps = 4", 5),
               {2 + half, 2, 2 - half, 1, 1});
}

// Values by the formulas of Megatron-LM's optimizer_param_scheduler.py.
TEST(LearningRate, InverseSqrtFallsAsOneOverTheRoot) {
  const auto root = [](double x) { return std::sqrt(x); };
  expect_rates(rates("inverse_sqrt", "peak = 3\nwarmup_steps = 4", 9),
               {.75, 1.5, 2.25, 3, 6 / root(5), 6 / root(6), 6 / root(7), 6 / root(8), 2});
  expect_rates(rates("inverse_sqrt", "peak = 3", 4), {3, 3 / root(2), 3 / root(3), 1.5});
  // Never below min, and min after the end.
  expect_rates(rates("inverse_sqrt", "peak = 3\nmin = 2", 4), {3, 3 / root(2), 2, 2});
  expect_rates(rates("inverse_sqrt", "peak = 3\nmin = 1\ndecay_steps = 2", 4),
               {3, 3 / root(2), 1, 1});
}

TEST(LearningRate, WsdStaysAndFallsAtTheEnd) {
  const auto tail = [](const std::string& keys) {
    return rates("wsd", "peak = 5\nmin = 1\nwarmup_steps = 2\ntail_steps = 4\n" + keys, 9);
  };
  expect_rates(tail("tail = \"linear\""), {2.5, 5, 5, 5, 5, 4, 3, 2, 1});
  const double half = std::sqrt(0.5);  // also cos(pi / 4)
  expect_rates(tail("tail = \"cosine\""), {2.5, 5, 5, 5, 5, 3 + 2 * half, 3, 3 - 2 * half, 1});
  const std::vector<double> exponential = {
      2.5, 5, 5, 5, 5, 8 * std::pow(2, -.25) - 3, 8 * half - 3, 8 * std::pow(2, -.75) - 3, 1};
  expect_rates(tail("tail = \"exponential\""), exponential);
  expect_rates(tail(""), exponential);  // as Megatron-LM's default
  expect_rates(tail("tail = \"minus_sqrt\""),
               {2.5, 5, 5, 5, 5, 3, 5 - 4 * half, 5 - 4 * std::sqrt(0.75), 1});
  // The end is given, and two updates follow it.
  expect_rates(tail("tail = \"linear\"\ndecay_steps = 7"), {2.5, 5, 5, 4, 3, 2, 1, 1, 1});
}

TEST(LearningRate, WsdMayBeAllTail) {
  expect_rates(rates("wsd", "peak = 4\ntail = \"linear\"\ntail_steps = 4", 4), {3, 2, 1, 0});
}

TEST(LearningRate, WsdRefusesATailThatDoesNotFit) {
  const auto problem = [](const std::string& keys, i64 steps) {
    return text_of<ConfigError>([&] { rates("wsd", keys, steps); });
  };
  EXPECT_THAT(problem("peak = 1", 9), HasSubstr("tail_steps"));
  EXPECT_THAT(problem("peak = 1\ntail_steps = 0", 9), HasSubstr("tail_steps"));
  EXPECT_THAT(problem("peak = 1\ntail_steps = 2\ntail = \"sqrt\"", 9), HasSubstr("minus_sqrt"));
  EXPECT_THAT(problem("peak = 1\nwarmup_steps = 4\ntail_steps = 6", 9),
              HasSubstr("lr.warmup_steps = 4 and lr.tail_steps = 6 are more than the 9 updates up "
                        "to the end of the decay (lr.decay_steps)"));
  EXPECT_THAT(problem("peak = 1\ntail_steps = 5\ndecay_steps = 4", 9),
              HasSubstr("lr.warmup_steps = 0 and lr.tail_steps = 5 are more than the 4 updates"));
  EXPECT_THAT(problem("peak = 1\nwarmup_steps = 4\ntail_steps = 1\ndecay_steps = 4", 9),
              HasSubstr("are more than the 4 updates"));
  // One that is cut short only warms up.
  expect_rates(rates("wsd", "peak = 1\nwarmup_steps = 4\ntail_steps = 6", 2), {.25, .5});
}

TEST(LearningRate, AllSchedulesAgreeInTheRise) {
  const std::string keys = "peak = 0.7\nwarmup_steps = 5";
  const auto linear = rates("linear", keys, 9), cosine = rates("cosine", keys, 9);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_DOUBLE_EQ(linear[i], 0.14 * static_cast<double>(i + 1));
    EXPECT_EQ(linear[i], cosine[i]);
  }
  EXPECT_EQ(linear[8], 0);
  EXPECT_EQ(cosine[8], 0);
}

TEST(LearningRate, RefusesWhatMakesNoSense) {
  const auto problem = [](const std::string& keys) {
    return text_of<ConfigError>([&] { rates("cosine", keys, 10); });
  };
  EXPECT_THAT(problem(""), HasSubstr("peak"));
  EXPECT_THAT(problem("peak = 0"), HasSubstr("peak"));
  EXPECT_THAT(problem("peak = 1\nmin = 2"), HasSubstr("lr.min = 2 is above lr.peak = 1"));
  EXPECT_THAT(problem("peak = 1\nwarmup_steps = 10\ndecay_steps = 9"),
              HasSubstr("lr.warmup_steps = 10 is beyond the end of the decay at step 9"));
  expect_rates(rates("linear", "peak = 1\nwarmup_steps = 2", 2), {.5, 1});  // no way down is left
  EXPECT_THAT(problem("peak = 1\nwarmup_steps = 1\nwarmup_share = 0.1"),
              HasSubstr("lr.warmup_steps = 1 and lr.warmup_share = 0.1 say the same"));
}

TEST(LearningRate, ARunCutShortOnlyWarmsUp) {
  expect_rates(rates("cosine", "peak = 1\nwarmup_steps = 8", 4), {.125, .25, .375, .5});
}

}  // namespace lr_test
}  // namespace tessera

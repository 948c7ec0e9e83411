// DESIGN §3: one config, any layout, one loss curve.
#include <gtest/gtest.h>

#include <cmath>

#include "training_support.hpp"

namespace tessera::testing {
namespace {

using Sets = std::vector<std::string>;

struct Layout {
  std::string name;
  Sets sets;
};

// Every layout and every microbatch size of this version.
const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all = {
      {"micro1", {"batch.micro=1"}},
      {"micro4", {"batch.micro=4"}},
      {"micro8", {"batch.micro=8"}},
      {"tp2", {"parallel.tensor=2"}},
      {"tp4", {"parallel.tensor=4"}},
      {"dp2", {"parallel.data=2"}},
      {"dp4", {"parallel.data=4"}},
      {"dp8", {"parallel.data=8", "batch.micro=1"}},
      {"tp2_dp2", {"parallel.tensor=2", "parallel.data=2"}},
      {"tp2_dp4", {"parallel.tensor=2", "parallel.data=4", "batch.micro=1"}},
      {"tp4_dp2", {"parallel.tensor=4", "parallel.data=2", "batch.micro=4"}},
      {"buckets", {"parallel.data=2", "parallel.bucket_elements=1000"}},
      {"dp_first", {"parallel.tensor=2", "parallel.data=2", "parallel.order=\"dp-cp-ep-tp-pp\""}},
  };
  return all;
}

Sets with(Sets sets, const Sets& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

const Training& one_rank(int steps) {
  static std::map<int, Training> runs;
  if (!runs.contains(steps)) runs[steps] = train(tiny_config(), {}, {.steps = steps});
  return runs[steps];
}

void expect_close(const std::vector<double>& got,
                  const std::vector<double>& want,
                  double tolerance,
                  std::string_view what) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], tolerance * std::abs(want[i])) << what << " of step " << i + 1;
  }
}

// Each logical tensor within 1e-5 of its own largest value plus 1e-8 of the largest of all.
void expect_tensors_close(const std::map<std::string, std::vector<double>>& got,
                          const std::map<std::string, std::vector<double>>& want) {
  ASSERT_EQ(got.size(), want.size());
  const auto largest = [](const std::vector<double>& values) {
    double max = 0;
    for (const double value : values) max = std::max(max, std::abs(value));
    return max;
  };
  double of_all = 0;
  for (const auto& [name, values] : want) of_all = std::max(of_all, largest(values));
  for (const auto& [name, values] : want) {
    ASSERT_TRUE(got.contains(name)) << name;
    ASSERT_EQ(got.at(name).size(), values.size()) << name;
    const double bound = 1e-5 * largest(values) + 1e-8 * of_all;
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(got.at(name)[i], values[i], bound) << name << " element " << i;
    }
  }
}

class Invariant : public ::testing::TestWithParam<Layout> {};

TEST_P(Invariant, LossesAndNormsOver20Steps) {
  const Training run = train(tiny_config(), GetParam().sets, {.steps = 20});
  expect_close(run.losses, one_rank(20).losses, 2e-6, "loss");
  expect_close(run.norms, one_rank(20).norms, 1e-5, "gradient norm");
}

TEST_P(Invariant, GradientsMatchDoublePrecision) {
  static const Training exact =
      train(tiny_config(), {"precision.compute=\"fp64\"", "precision.main=\"fp64\""}, {});
  expect_tensors_close(train(tiny_config(), GetParam().sets, {}).gradients, exact.gradients);
}

TEST_P(Invariant, OneSgdStep) {
  const Sets sgd = {"optimizer.rule.type=\"sgd\"", "lr.warmup_steps=0", "optimizer.clip=0"};
  static const Training exact = train(
      tiny_config(), with(sgd, {"precision.compute=\"fp64\"", "precision.main=\"fp64\""}), {});
  expect_tensors_close(train(tiny_config(), with(GetParam().sets, sgd), {}).parameters,
                       exact.parameters);
}

INSTANTIATE_TEST_SUITE_P(Layouts, Invariant, ::testing::ValuesIn(layouts()), [](const auto& info) {
  return info.param.name;
});

TEST(InvariantLong, LossesAndNormsOver100Steps) {
  const Training run =
      train(tiny_config(), {"parallel.tensor=2", "parallel.data=2"}, {.steps = 100});
  expect_close(run.losses, one_rank(100).losses, 1e-5, "loss");
  expect_close(run.norms, one_rank(100).norms, 1e-4, "gradient norm");
}

TEST(InvariantLong, TrainingLearns) {
  const Training& run = one_rank(100);
  EXPECT_LT(run.losses.back(), run.losses.front() - 1.0);
}

TEST(InvariantRepeat, SameLayoutSameBits) {
  const Sets sets = {"parallel.tensor=2", "parallel.data=2"};
  const Training first = train(tiny_config(), sets, {.steps = 5});
  const Training second = train(tiny_config(), sets, {.steps = 5});
  EXPECT_EQ(first.losses, second.losses);
  EXPECT_EQ(first.norms, second.norms);
  EXPECT_EQ(first.parameters, second.parameters);
}

}  // namespace
}  // namespace tessera::testing

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/unit/ops/run.hpp"

namespace tessera {
namespace reference_loss_test {

constexpr double kInf = std::numeric_limits<double>::infinity();

Operand bytes(std::vector<double> values) {
  const Shape shape{static_cast<i64>(values.size())};
  return Operand::given(shape, DType::u8, std::move(values));
}

/// The four steps over shards of the vocabulary, reduced as ranks would.
struct CrossEntropy {
  std::vector<Operand> shards;
  std::vector<i64> first, valid;
  std::vector<double> targets, mask, max, sums;

  double loss(double inverse_weight) {
    const std::size_t n = targets.size();
    max.assign(n, -kInf);
    sums.assign(2 * n, 0);
    for (std::size_t s = 0; s < shards.size(); ++s) {
      CrossEntropyMaxArgs args;
      args.valid = valid[s];
      const auto here = run(args, {shards[s], Operand::result()})[1];
      for (std::size_t i = 0; i < n; ++i) max[i] = std::max(max[i], here[i]);
    }
    const i64 rows = static_cast<i64>(n);
    for (std::size_t s = 0; s < shards.size(); ++s) {
      CrossEntropySumsArgs args;
      args.first = first[s];
      args.valid = valid[s];
      const auto here =
          run(args, {shards[s], integers(targets), fp64({rows}, max), Operand::result()})[3];
      for (std::size_t i = 0; i < 2 * n; ++i) sums[i] += here[i];
    }
    return run(
        CrossEntropyLossArgs{},
        {fp64({rows, 2}, sums), bytes(mask), fp64({1}, {inverse_weight}), Operand::result()})[3][0];
  }
  std::vector<double> gradient(std::size_t s, double inverse_weight, double grad) const {
    CrossEntropyGradArgs args;
    args.first = first[s];
    args.valid = valid[s];
    const i64 rows = static_cast<i64>(targets.size());
    return run(args,
               {shards[s],
                integers(targets),
                fp64({rows}, max),
                fp64({rows, 2}, sums),
                bytes(mask),
                fp64({1}, {inverse_weight}),
                fp64({1}, {grad}),
                Operand::result()})[7];
  }
};

TEST(ReferenceCrossEntropy, UniformLogitsCostLogV) {
  CrossEntropy ce;
  ce.shards = {fp64({2, 5}, std::vector<double>(10, 3.25))};
  ce.first = {0};
  ce.valid = {5};
  ce.targets = {1, 4};
  ce.mask = {1, 1};
  EXPECT_NEAR(ce.loss(0.5), std::log(5.0), 1e-14);
  expect_near(ce.gradient(0, 0.5, 1), {.1, -.4, .1, .1, .1, .1, .1, .1, .1, -.4});
}

TEST(ReferenceCrossEntropy, HitsAreRowsWhoseTargetHasTheLargestLogit) {
  CrossEntropyLossArgs args;
  args.hits = true;
  const double nan = std::nan("");
  const Operand sums = fp64({5, 2}, {2, 0, 1, 0, 3, -0.5, 1, 0, nan, nan});
  const auto hits = run(args, {sums, bytes({1, 1, 1, 0, 1}), fp64({1}, {0.25}), Operand::result()});
  EXPECT_EQ(hits[3][0], 0.5);
}

TEST(ReferenceCrossEntropy, ShardsPaddingAndMask) {
  // Logits log 1 … log 4 of a vocabulary of 4, in shards of 3 with padding: softmax i / 10.
  const auto l = [](double x) { return std::log(x); };
  CrossEntropy ce;
  ce.shards = {fp64({3, 3}, {l(1), l(2), l(3), l(1), l(2), l(3), l(1), l(2), l(3)}),
               fp64({3, 3}, {l(4), 99, 99, l(4), 99, 99, l(4), 99, 99}),
               fp64({3, 3}, std::vector<double>(9, 99))};
  ce.first = {0, 3, 4};
  ce.valid = {3, 1, 0};
  ce.targets = {0, 3, -100};  // the last row is masked and its target is none
  ce.mask = {1, 1, 0};
  EXPECT_NEAR(ce.loss(0.5), 0.5 * (-l(0.1) - l(0.4)), 1e-14);
  EXPECT_EQ(ce.max, std::vector<double>(3, l(4)));
  const double f = 0.5 * -8;
  expect_near(ce.gradient(0, 0.5, -8), {f * -.9, f * .2, f * .3, f * .1, f * .2, f * .3, 0, 0, 0});
  expect_near(ce.gradient(1, 0.5, -8), {f * .4, 0, 0, f * -.6, 0, 0, 0, 0, 0});
  expect_near(ce.gradient(2, 0.5, -8), std::vector<double>(9));
}

TEST(ReferenceCrossEntropy, AtOnceOverAWholeVocabulary) {
  const auto l = [](double x) { return std::log(x); };
  WholeCrossEntropyArgs args;
  args.valid = 4;
  const auto found = run(args,
                         {fp64({2, 5}, {l(1), l(2), l(3), l(4), 99, l(1), l(2), l(3), l(4), 99}),
                          integers({1, 2}),
                          bytes({1, 0}),
                          fp64({1}, {0.5}),
                          fp64({1}, {-8}),
                          Operand::result(),
                          Operand::blank({2, 5}, DType::fp64)});
  expect_near(found[5], {2.5, l(0.5), 2.5, l(0.75)});
  const double f = 0.5 * -8;
  expect_near(found[6], {f * .1, f * -.8, f * .3, f * .4, 0, 0, 0, 0, 0, 0});
}

TEST(ReferenceCrossEntropy, LargeLogitsDoNotOverflow) {
  CrossEntropy ce;
  ce.shards = {fp64({1, 2}, {5000, 4000})};
  ce.first = {0};
  ce.valid = {2};
  ce.targets = {1};
  ce.mask = {1};
  EXPECT_NEAR(ce.loss(1), 1000, 1e-9);
}

}  // namespace reference_loss_test
}  // namespace tessera

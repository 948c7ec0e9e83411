// What routers and the operations on rows of experts mean, against values worked out by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "tessera/random.hpp"
#include "tests/unit/ops/run.hpp"

namespace tessera {
namespace reference_moe_test {

using Values = std::vector<double>;

Operand indices(const Shape& shape, Values values) {
  return Operand::given(shape, DType::i32, std::move(values));
}

Values choose(const RouterSpec& spec, const Operand& logits, const Operand& bias = {}) {
  TopkExpertsArgs args;
  args.spec = spec;
  return run(args, {logits, bias, Operand::result()})[2];
}

TEST(ReferenceRouter, TiesGoToTheLowerExpert) {
  const Operand logits = fp64({3, 4}, {0, 1, 1, 1, 2, 0, 2, 3, 5, 5, 5, 5});
  for (const RouterScore score : {RouterScore::softmax,
                                  RouterScore::softmax_before,
                                  RouterScore::sigmoid,
                                  RouterScore::sqrt_softplus}) {
    EXPECT_EQ(choose({.top_k = 2, .score = score}, logits), (Values{1, 2, 3, 0, 0, 1}));
    // Beyond the digits of a sigmoid, but not of its logit.
    EXPECT_EQ(choose({.score = score}, fp64({1, 2}, {60, 61})), (Values{1}));
  }
}

TEST(ReferenceRouter, BiasDecidesTheChoiceOnly) {
  const Operand logits = fp64({1, 3}, {1, 0, -1}), bias = fp64({3}, {0, 0, 1});
  const RouterSpec spec{.top_k = 2, .score = RouterScore::sigmoid, .scale = 3};
  EXPECT_EQ(choose(spec, logits, bias), (Values{2, 0}));
  RouterWeightsArgs args;
  args.spec = spec;
  const double low = 1 / (1 + std::exp(1)), high = 1 / (1 + std::exp(-1));
  expect_near(run(args, {logits, indices({1, 2}, {2, 0}), Operand::result()})[2],
              {3 * low / (low + high), 3 * high / (low + high)});
}

TEST(ReferenceRouter, GroupsAreChosenByTheirBestSums) {
  // Sums of the two best of each group: 5, 6, 5.5; the best expert of all is in a group left out.
  const Operand logits = fp64({1, 9}, {5, 0, 0, 3, 3, 0, 2.75, 2.75, 2});
  const RouterSpec spec{.top_k = 4, .groups = 3, .group_top_k = 2};
  EXPECT_EQ(choose(spec, logits), (Values{3, 4, 6, 7}));
  RouterSpec one = spec;
  one.top_k = 1;
  one.group_top_k = 1;
  EXPECT_EQ(choose(one, logits), (Values{0}));  // by the best one
}

TEST(ReferenceRouter, WeightsOfEachScore) {
  const double l = std::log(2), m = std::log(5);
  const Operand logits = fp64({1, 3}, {l, m, 0}), experts = indices({1, 2}, {1, 0});
  const auto weights = [&](RouterScore score) {
    RouterWeightsArgs args;
    args.spec.score = score;
    return run(args, {logits, experts, Operand::result()})[2];
  };
  expect_near(weights(RouterScore::softmax), {5.0 / 7, 2.0 / 7});
  expect_near(weights(RouterScore::softmax_before), {5.0 / 8, 2.0 / 8});
  expect_near(weights(RouterScore::sigmoid), {5.0 / 6 / (5.0 / 6 + 2.0 / 3), 2.0 / 3 / 1.5});
  const double a = std::sqrt(std::log(6)), b = std::sqrt(std::log(3));
  expect_near(weights(RouterScore::sqrt_softplus), {a / (a + b), b / (a + b)});
}

TEST(ReferenceRouter, OneExpertAndDroppedChoices) {
  RouterWeightsArgs args;
  args.spec.score = RouterScore::sigmoid;
  const Operand logits = fp64({1, 2}, {0, 7});
  // A single choice is not divided by itself.
  expect_near(run(args, {logits, indices({1, 1}, {0}), Operand::result()})[2], {0.5});
  args.spec.score = RouterScore::softmax;
  EXPECT_EQ(run(args, {logits, indices({1, 2}, {-1, 1}), Operand::result()})[2], (Values{0, 1}));
  EXPECT_EQ(run(args, {logits, indices({1, 2}, {-1, 2}), Operand::result()})[2], (Values{0, 0}));
}

TEST(ReferenceExperts, CountedAndSorted) {
  const Operand experts = indices({3, 2}, {2, 0, -1, 2, 0, 4});
  ExpertCountsArgs counts;
  counts.all = 4;
  EXPECT_EQ(run(counts, {experts, Operand::result()})[1], (Values{2, 0, 2, 0}));
  SortByExpertArgs sort;
  sort.all = 4;
  const auto sorted = run(sort, {experts, Operand::result(), Operand::result()});
  EXPECT_EQ(sorted[1], (Values{1, 4, 0, 3, 2, 5}));  // choices 2 and 5 are dropped
  EXPECT_EQ(sorted[2], (Values{2, 0, 4, 3, 1, 5}));
  InvertOrderArgs invert;
  invert.size = 6;
  EXPECT_EQ(run(invert, {indices({6}, sorted[1]), Operand::result()})[1], sorted[2]);
  invert.size = 4;
  EXPECT_EQ(run(invert, {indices({3}, {3, -1, 1}), Operand::result()})[1], (Values{-1, 2, -1, 0}));
}

// Rows of samples 1 and 0, in another order than their positions. Of expert 0 two choices stay in
// each sample, of expert 1 all.
struct Choices {
  Operand experts = indices({6, 1}, {0, 0, 0, 0, 1, 5});
  Operand weights = fp64({6, 1}, {1, 3, 2, 0, 9, 9});
  Operand rows = Operand::given({6},
                                DType::i64,
                                {static_cast<double>(row_id(1, 0)),
                                 static_cast<double>(row_id(1, 2)),
                                 static_cast<double>(row_id(1, 1)),
                                 static_cast<double>(row_id(0, 7)),
                                 static_cast<double>(row_id(1, 3)),
                                 static_cast<double>(row_id(1, 4))});
  KeepChoicesArgs args = [] {
    KeepChoicesArgs made;
    made.all = 2;
    made.limit = 2;
    made.rows = 6;
    return made;
  }();
};

TEST(ReferenceCapacity, TheLargestWeightsStay) {
  Choices c;
  EXPECT_EQ(run(c.args, {c.experts, c.weights, c.rows, Operand::result()})[3],
            (Values{2, 0, 0, 0, 1, 2}));
  c.args.per_sample = false;
  c.args.limit = 1;
  EXPECT_EQ(run(c.args, {c.experts, c.weights, c.rows, Operand::result()})[3],
            (Values{2, 0, 2, 2, 1, 2}));
}

TEST(ReferenceCapacity, TheFirstPositionsStay) {
  Choices c;
  EXPECT_EQ(run(c.args, {c.experts, {}, c.rows, Operand::result()})[3], (Values{0, 2, 0, 0, 1, 2}));
}

TEST(ReferenceCapacity, TiesAndNansGoToTheFirstPosition) {
  Choices c;
  const double nan = std::nan("");
  c.args.limit = 1;
  EXPECT_EQ(
      run(c.args, {c.experts, fp64({6, 1}, {2, 2, 2, 0, 0, 0}), c.rows, Operand::result()})[3],
      (Values{0, 2, 2, 0, 1, 2}));
  EXPECT_EQ(
      run(c.args,
          {c.experts, fp64({6, 1}, {nan, -9, nan, nan, nan, nan}), c.rows, Operand::result()})[3],
      (Values{2, 0, 2, 0, 1, 2}));
}

TEST(ReferenceCapacity, PaddingTakesNoPlace) {
  Choices c;
  c.rows = Operand::given({6},
                          DType::i64,
                          {static_cast<double>(row_id(1, 0)),
                           static_cast<double>(padding_row(2)),
                           static_cast<double>(row_id(1, 1)),
                           static_cast<double>(padding_row(0)),
                           static_cast<double>(row_id(1, 3)),
                           static_cast<double>(row_id(1, 4))});
  for (const Operand& weights : {c.weights, Operand()}) {
    EXPECT_EQ(run(c.args, {c.experts, weights, c.rows, Operand::result()})[3],
              (Values{0, 2, 0, 2, 1, 2}));
  }
}

// What other ranks hold counts too.
TEST(ReferenceCapacity, OwnRowsAreAPartOfAll) {
  Choices c;
  c.args.first = 1;
  c.args.rows = 2;
  EXPECT_EQ(run(c.args, {c.experts, {}, c.rows, Operand::result()})[3], (Values{2, 0}));
  c.args.limit = 0;
  EXPECT_EQ(run(c.args, {c.experts, {}, c.rows, Operand::result()})[3], (Values{2, 2}));
}

TEST(ReferenceCapacity, EveryExpertHasItsPlaces) {
  PadOrderArgs args;
  args.places = 2;
  const Operand counts = Operand::given({3}, DType::i64, {1, 0, 3});
  EXPECT_EQ(run(args, {indices({5}, {4, 1, 2, 3, 0}), counts, Operand::result()})[2],
            (Values{4, -1, -1, -1, 1, 2}));
}

TEST(ReferenceRows, GoToTheirExpertsAndBack) {
  const Operand x = fp64({2, 2}, {1, 2, 3, 4});
  PermuteRowsArgs permute;
  permute.k = 2;
  // Choices 2 and 1, an empty place, choice 3: tokens 1, 0, none, 1.
  EXPECT_EQ(run(permute, {x, indices({4}, {2, 1, -1, 3}), Operand::result()})[2],
            (Values{3, 4, 1, 2, 0, 0, 3, 4}));
  const Operand y = fp64({4, 1}, {1, 10, 100, 1000});
  EXPECT_EQ(run(UnpermuteRowsArgs{}, {y, indices({2, 2}, {-1, 1, 0, 3}), Operand::result()})[2],
            (Values{10, 1001}));
}

TEST(ReferenceGrouped, EachRowMeetsItsExpert) {
  const Operand a = fp64({4, 2}, {1, 0, 0, 1, 1, 1, 5, 5});
  const Operand counts = Operand::given({3}, DType::i64, {2, 0, 1});
  const Operand b = fp64({3, 2, 1}, {1, 2, 10, 20, 100, 200});
  EXPECT_EQ(run(GroupedMatmulArgs{}, {a, counts, b, Operand::result()})[3], (Values{1, 2, 300, 0}));
  GroupedMatmulArgs back;
  back.transpose_b = true;
  const Operand grad = fp64({4, 1}, {1, 2, 3, 4});
  EXPECT_EQ(run(back, {grad, counts, b, Operand::result()})[3],
            (Values{1, 2, 2, 4, 300, 600, 0, 0}));
  const Operand sums = fp64({3, 2, 1}, {0, 0, 7, 8, 0, 100});
  EXPECT_EQ(run(GroupedWeightArgs{}, {a, counts, grad, sums})[3], (Values{1, 2, 7, 8, 3, 103}));
}

TEST(ReferenceActivation, IsMultipliedByTheRowsWeight) {
  const double s = 1 / (1 + std::exp(-1.0));
  const Operand x = fp64({2, 2}, {1, 3, 0, 5}), weights = fp64({2}, {2, 4});
  WeightedActivationArgs forward;
  expect_near(run(forward, {x, weights, Operand::result()})[2], {2 * s * 3, 0});
  WeightedActivationBackwardArgs back;
  const auto found =
      run(back, {fp64({2, 1}, {1, 1}), x, weights, Operand::result(), Operand::result()});
  expect_near(found[3], {2 * 3 * (s + s * (1 - s)), 2 * s, 4 * 5 * 0.5, 0});
  expect_near(found[4], {3 * s, 0});
}

// The gate's GELU is the operation's: of 1 and 0 by its formula and derivative.
TEST(ReferenceActivation, OfAGateIsGelu) {
  const double root = std::sqrt(2 / M_PI), t = std::tanh(root * 1.044715);
  const double value = 0.5 * (1 + t);
  const double slope = value + 0.5 * (1 - t * t) * root * (1 + 3 * 0.044715);
  const Operand x = fp64({2, 2}, {1, 3, 0, 5}), weights = fp64({2}, {2, 4});
  WeightedActivationArgs forward;
  forward.activation = Activation::geglu;
  expect_near(run(forward, {x, weights, Operand::result()})[2], {2 * value * 3, 0});
  WeightedActivationBackwardArgs back;
  back.activation = Activation::geglu;
  const auto found =
      run(back, {fp64({2, 1}, {1, 1}), x, weights, Operand::result(), Operand::result()});
  expect_near(found[3], {2 * 3 * slope, 2 * value, 4 * 5 * 0.5, 0});
  expect_near(found[4], {3 * value, 0});
}

TEST(ReferenceExperts, AreCountedBySequence) {
  ExpertCountsArgs args;
  args.all = 2;
  args.rows = {.first = 1, .positions = 2, .sequences = 2};
  EXPECT_EQ(run(args, {indices({3, 1}, {0, 1, 1}), Operand::result()})[1], (Values{1, 0, 0, 2}));
}

// Two sequences, of which the first has one more row elsewhere: shares 1/4, 3/4 and 1/2, 1/2.
TEST(ReferenceAuxiliary, BalanceOfSequences) {
  BalanceLossArgs args;
  args.rows = {.first = 1, .positions = 2, .sequences = 2};
  args.factor = 0.5;
  const Operand logits = fp64({3, 2}, {0, std::log(3), 5, 5, -5, -5});
  const Operand counts = Operand::given({2, 2}, DType::i64, {1, 3, 4, 0});
  const Operand weight = fp64({1}, {0.25});
  // 1/4 + 9/4 of the first sequence, 2 + 2 of the second.
  expect_near(run(args, {logits, counts, weight, Operand::result()})[3], {0.5 * 0.25 * 6.5});
  BalanceGradArgs back;
  back.rows = args.rows;
  back.factor = 0.5;
  // share · (count - mean of the counts): mean 2.5, then 2 twice.
  const double f = 0.5 * 0.25 * -2;
  expect_near(run(back, {logits, counts, weight, fp64({1}, {-2}), Operand::result()})[4],
              {f * .25 * -1.5, f * .75 * .5, f * .5 * 2, f * .5 * -2, f * .5 * 2, f * .5 * -2});
}

TEST(ReferenceAuxiliary, BalanceOfSigmoidShares) {
  BalanceLossArgs args;
  args.score = RouterScore::sigmoid;
  const double third = -std::log(2);  // sigmoid 1/3
  const Operand counts = Operand::given({1, 2}, DType::i64, {5, 10});
  const Operand logits = fp64({1, 2}, {third, -third});
  expect_near(run(args, {logits, counts, fp64({1}, {1}), Operand::result()})[3],
              {5.0 / 3 + 10 * 2.0 / 3});
}

TEST(ReferenceAuxiliary, ZLossIsTheSquareOfTheLogSum) {
  ZLossArgs args;
  args.factor = 0.5;
  const double l = std::log(4), m = std::log(10);
  const Operand logits = fp64({2, 2}, {std::log(3), 0, std::log(5), std::log(5)});
  const Operand weight = fp64({1}, {0.1});
  expect_near(run(args, {logits, weight, Operand::result()})[2], {0.5 * 0.1 * (l * l + m * m)});
  ZLossGradArgs back;
  back.factor = 0.5;
  expect_near(run(back, {logits, weight, fp64({1}, {3}), Operand::result()})[3],
              {.3 * l * .75, .3 * l * .25, .3 * m * .5, .3 * m * .5});
}

TEST(ReferenceAuxiliary, FractionsAreCountsOverTheirSum) {
  const Operand logits = fp64({2, 2}, {1, 0, -2, 3}), one = fp64({1}, {1});
  const Operand counts = Operand::given({1, 2}, DType::i64, {3, 5});
  BalanceLossArgs loss;
  BalanceGradArgs back;
  loss.factor = back.factor = 0.125;  // 1 over their sum
  const auto plain = run(loss, {logits, counts, one, Operand::result()})[3];
  const auto gradient = run(back, {logits, counts, one, one, Operand::result()})[4];
  loss.factor = back.factor = 1;
  loss.fractions = back.fractions = true;
  expect_near(run(loss, {logits, counts, one, Operand::result()})[3], plain);
  expect_near(run(back, {logits, counts, one, one, Operand::result()})[4], gradient);
}

TEST(ReferenceRouter, ExpertsChooseTheirRows) {
  // Two sequences of two rows, one part. Shares of expert 0: 1/2, 3/4; 1/4, 1/4: a tie.
  const double m = std::log(3);
  const Operand logits = fp64({4, 2}, {0, 0, m, 0, 0, m, 1, 1 + m});
  const Operand positions = integers({0, 1, 0, 1});
  ExpertChoiceArgs args;
  args.length = 2;
  args.n = 4;
  EXPECT_EQ(run(args, {logits, positions, Operand::result()})[2],
            (Values{-1, 1, 0, -1, 0, 1, -1, -1}));
  // The same rows in two parts, in which the second half of each sequence comes first.
  const Operand parted = fp64({4, 2}, {m, 0, 1, 1 + m, 0, 0, 0, m});
  args.parts = 2;
  args.first = 2;
  args.n = 2;
  EXPECT_EQ(run(args, {parted, integers({1, 1, 0, 0}), Operand::result()})[2],
            (Values{-1, 1, 0, 1}));
  args.rows = 2;
  EXPECT_EQ(run(args, {parted, integers({1, 1, 0, 0}), Operand::result()})[2],
            (Values{0, 1, 0, 1}));
}

TEST(ReferenceRouter, ExpertsChooseAmongTokensAndNotPadding) {
  const double m = std::log(3);
  const Operand logits = fp64({4, 2}, {m, 0, 0, 0, 9, 0, 0, 9});
  ExpertChoiceArgs args;
  args.length = args.n = 4;
  args.rows = 2;
  args.seen = 2;  // as many rows of two as of a sequence of two: one
  EXPECT_EQ(run(args, {logits, integers({0, 1, 2, 3}), Operand::result()})[2],
            (Values{0, -1, -1, 1, -1, -1, -1, -1}));
  EXPECT_EQ(run(args, {logits, integers({2, 3, 0, 1}), Operand::result()})[2],
            (Values{-1, -1, -1, -1, 0, -1, -1, 1}));
}

TEST(ReferenceRouter, BiasesMoveTowardsTheMeanOfTheLoads) {
  ExpertBiasArgs args;
  args.rate = 0.5;
  const auto moved = [&](double skipped, Values counts) {
    return run(args, {fp64({1}, {skipped}), fp64({3}, {1, 1, 1}), integers(std::move(counts))});
  };
  EXPECT_EQ(moved(0, {4, 1, 1})[1], (Values{0.5, 1.5, 1.5}));
  EXPECT_EQ(moved(0, {3, 2, 1})[1], (Values{0.5, 1, 1.5}));
  EXPECT_EQ(moved(0, {2, 2, 2})[1], (Values{1, 1, 1}));
  EXPECT_EQ(moved(1, {4, 1, 1})[1], (Values{1, 1, 1})) << "a skipped step changes nothing";
  EXPECT_EQ(moved(1, {4, 1, 1})[2], (Values{0, 0, 0})) << "and the next one counts anew";
}

TEST(ReferenceRouter, JitterStaysWithinItsBounds) {
  JitterArgs args;
  args.eps = 0.25;
  args.key = 3;
  const auto factors = run(args,
                           {fp64({2, 512}, Values(1024, 1)),
                            integers({row_id(1, 0), row_id(1, 1)}),
                            Operand::result()})[2];
  double sum = 0;
  for (const double factor : factors) {
    EXPECT_GE(factor, 0.75);
    EXPECT_LT(factor, 1.25);
    sum += factor;
  }
  EXPECT_NEAR(sum / 1024, 1, 0.02);
  EXPECT_NE(factors[0], factors[512]) << "rows have numbers of their own";
}

}  // namespace reference_moe_test
}  // namespace tessera

// The oracle itself, against values worked out by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/common/rmsnorm.hpp"
#include "tests/unit/ops/run.hpp"

namespace tessera {
namespace reference_test {

using testing::rmsnorm;

constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(ReferenceMatmul, RowSplitProductOfTwoRanks) {
  // X A of the tensor-parallel example: the second rank's half of the sum is all of it.
  const Operand x = fp64({2, 4}, {0, 0, 1, 1, 0, 0, 1, 1});
  const Operand a = fp64({4, 2}, {0, 0, 0, 0, 1, 2, 1, 2});
  const auto whole =
      run(MatmulArgs{}, {x, a, Operand::absent(), Operand::absent(), Operand::result()});
  EXPECT_EQ(whole[4], (std::vector<double>{2, 4, 2, 4}));
  const Operand x1 = fp64({2, 2}, {1, 1, 1, 1}), a1 = fp64({2, 2}, {1, 2, 1, 2});
  const auto part =
      run(MatmulArgs{}, {x1, a1, Operand::absent(), Operand::absent(), Operand::result()});
  EXPECT_EQ(part[4], whole[4]);
}

TEST(ReferenceMatmul, TransposesBiasAndAccumulates) {
  const Operand a = fp64({2, 3}, {1, 2, 3, 4, 5, 6}), b = fp64({2, 3}, {1, 0, -1, 2, 1, 0});
  MatmulArgs args;
  args.transpose_b = true;
  const Operand bias = fp64({2}, {10, 20});
  EXPECT_EQ(run(args, {a, b, bias, Operand::absent(), Operand::result()})[4],
            (std::vector<double>{1 - 3 + 10, 2 + 2 + 20, 4 - 6 + 10, 8 + 5 + 20}));
  args = {};
  args.transpose_a = true;
  args.accumulate = true;
  const Operand sum = fp64({3, 3}, {1, 1, 1, 1, 1, 1, 1, 1, 1});
  EXPECT_EQ(run(args, {a, b, Operand::absent(), Operand::absent(), sum})[4],
            (std::vector<double>{10, 5, 0, 13, 6, -1, 16, 7, -2}));
}

TEST(ReferenceMatmul, ColumnSumAddsToWhatIsThere) {
  EXPECT_EQ(run(ColumnSumArgs{}, {fp64({3, 2}, {1, 2, 3, 4, 5, 6}), fp64({2}, {100, 200})})[1],
            (std::vector<double>{109, 212}));
  EXPECT_EQ(
      run(AddBiasArgs{}, {fp64({2, 2}, {1, 2, 3, 4}), fp64({2}, {10, 20}), Operand::result()})[2],
      (std::vector<double>{11, 22, 13, 24}));
}

TEST(ReferenceLinear, WeightHalf) {
  const auto found = run(LinearWeightArgs{},
                         {fp64({2, 2}, {1, 2, 3, 4}),
                          fp64({2, 3}, {1, 0, -1, 2, 5, 0.5}),
                          fp64({2, 3}, {100, 0, 0, 0, 0, 200}),
                          fp64({2}, {10, 20})});
  EXPECT_EQ(found[2], (std::vector<double>{107, 15, 0.5, 10, 20, 200}));
  EXPECT_EQ(found[3], (std::vector<double>{14, 26}));
}

TEST(ReferenceLayerNorm, SimpleRows) {
  LayerNormArgs args;
  args.eps = 0;
  const auto found = run(args,
                         {fp64({2, 4}, {1, 3, 1, 3, -2, 2, 2, -2}),
                          fp64({4}, {1, 1, 2, 1}),
                          fp64({4}, {0, 0, 0, 5}),
                          Operand::result(),
                          Operand::result(),
                          Operand::result()});
  expect_near(found[3], {-1, 1, -2, 6, -1, 1, 2, 4});
  expect_near(found[4], {2, 0});
  expect_near(found[5], {1, 0.5});
}

TEST(ReferenceLayerNorm, GradientIsOrthogonalToConstantsAndInput) {
  // out does not change when x is shifted or, without eps, scaled: so dx has no part along either.
  const std::vector<double> x = {1, 3, 1, 3}, grad = {0.5, -1, 2, 7};
  const auto dx = run(LayerNormBackwardArgs{},
                      {fp64({1, 4}, grad),
                       fp64({1, 4}, x),
                       fp64({4}, {1, 1, 1, 1}),
                       fp64({1}, {2}),
                       fp64({1}, {1}),
                       Operand::result()})[5];
  // x̂ = (-1 1 -1 1), mean of g = 2.125, mean of g x̂ = 0.875.
  expect_near(dx, {-0.75, -4, 0.75, 4});
  const auto sum = run(LayerNormBackwardAddArgs{},
                       {fp64({1, 4}, grad),
                        fp64({1, 4}, x),
                        fp64({4}, {1, 1, 1, 1}),
                        fp64({1}, {2}),
                        fp64({1}, {1}),
                        fp64({1, 4}, {10, 20, 30, 40}),
                        Operand::result()})[6];
  expect_near(sum, {9.25, 16, 30.75, 44});
}

TEST(ReferenceLayerNorm, WeightHalf) {
  const auto found = run(LayerNormWeightArgs{},
                         {fp64({2, 2}, {1, 2, 3, 4}),
                          fp64({2, 2}, {1, 3, 5, 1}),
                          fp64({2}, {2, 3}),
                          fp64({2}, {1, 0.5}),
                          fp64({2}, {100, 200}),
                          fp64({2}, {10, 20})});
  expect_near(found[4], {100 - 1 + 3, 200 + 2 - 4});
  expect_near(found[5], {14, 26});
}

// Mean squares are 25 and 4.
TEST(ReferenceRmsNorm, SimpleRows) {
  auto args = rmsnorm<LayerNormArgs>();
  args.eps = 0;
  const std::vector<Operand> operands = {fp64({2, 4}, {1, 7, 5, 5, -2, 2, 2, -2}),
                                         fp64({4}, {1, 1, 2, 1}),
                                         Operand::absent(),
                                         Operand::result(),
                                         Operand::absent(),
                                         Operand::result()};
  const auto found = run(args, operands);
  expect_near(found[3], {0.2, 1.4, 2, 1, -1, 1, 2, -1});
  expect_near(found[5], {0.2, 0.5});
  args.eps = 11;  // 36 and 15
  expect_near(run(args, operands)[5], {1.0 / 6, 1 / std::sqrt(15.0)});
}

TEST(ReferenceRmsNorm, GradientIsOrthogonalToInput) {
  // Without eps out does not change when x is scaled: so dx has no part along it.
  const std::vector<double> x = {1, 7, 5, 5}, grad = {5, -1, 2, 3};
  const auto dx = run(rmsnorm<LayerNormBackwardArgs>(),
                      {fp64({1, 4}, grad),
                       fp64({1, 4}, x),
                       fp64({4}, {1, 1, 2, 1}),
                       Operand::absent(),
                       fp64({1}, {0.2}),
                       Operand::result()})[5];
  // x̂ = (0.2 1.4 1 1), g = (5 -1 4 3), mean of g x̂ = 1.65.
  expect_near(dx, {0.934, -0.662, 0.47, 0.27});
  const auto sum = run(rmsnorm<LayerNormBackwardAddArgs>(),
                       {fp64({1, 4}, grad),
                        fp64({1, 4}, x),
                        fp64({4}, {1, 1, 2, 1}),
                        Operand::absent(),
                        fp64({1}, {0.2}),
                        fp64({1, 4}, {10, 20, 30, 40}),
                        Operand::result()})[6];
  expect_near(sum, {10.934, 19.338, 30.47, 40.27});
}

TEST(ReferenceRmsNorm, WeightHalf) {
  const auto found = run(rmsnorm<LayerNormWeightArgs>(),
                         {fp64({2, 2}, {1, 2, 3, 4}),
                          fp64({2, 2}, {1, 3, 5, 1}),
                          Operand::absent(),
                          fp64({2}, {1, 0.5}),
                          fp64({2}, {100, 200}),
                          Operand::absent()});
  expect_near(found[4], {100 + 1 + 7.5, 200 + 6 + 2});
}

TEST(ReferenceGelu, KnownValues) {
  // The formula as Python evaluates it.
  const std::vector<double> x = {-3, -1, 0, 0.5, 1, 2};
  const auto out = run(GeluArgs{}, {fp64({6}, x), Operand::result()})[1];
  expect_near(out,
              {-0.0036373920817729943,
               -0.15880800939172324,
               0,
               0.34571400982514394,
               0.8411919906082768,
               1.9545976940877752},
              1e-15);
  // gelu(x) - gelu(-x) = x, so the slopes of x and -x sum to 1; at 0 the slope is one half.
  const auto slope =
      run(GeluBackwardArgs{},
          {fp64({4}, {1, 1, 1, 2}), fp64({4}, {1.3, -1.3, 0, 0}), Operand::result()})[2];
  expect_near({slope[0] + slope[1], slope[2], slope[3]}, {1, 0.5, 1});
}

TEST(ReferenceGeluErf, KnownValues) {
  // 0.5 x erfc(-x / sqrt(2)) as Python evaluates it.
  const std::vector<double> x = {-10, -3, -1, 0, 0.5, 1, 2};
  const auto out = run(GeluErfArgs{}, {fp64({7}, x), Operand::result()})[1];
  expect_near(out,
              {-7.619853024160593e-23,
               -0.004049694094890287,
               -0.15865525393145705,
               0,
               0.34573123063700656,
               0.8413447460685429,
               1.9544997361036416},
              1e-15);
  EXPECT_NEAR(out[0] / -7.619853024160593e-23, 1, 1e-14);  // a sum with erf would give 0
  const auto slope =
      run(GeluErfBackwardArgs{},
          {fp64({4}, {1, 1, 1, 2}), fp64({4}, {1.3, -1.3, 0, 0}), Operand::result()})[2];
  expect_near({slope[0] + slope[1], slope[2], slope[3]}, {1, 0.5, 1});
}

TEST(ReferenceTanh, KnownValues) {
  const std::vector<double> x = {-20, -1, 0, 0.5};
  expect_near(run(TanhArgs{}, {fp64({4}, x), Operand::result()})[1],
              {-1, -0.7615941559557649, 0, 0.46211715726000973},
              1e-15);
  const auto slope =
      run(TanhBackwardArgs{}, {fp64({3}, {2, 1, 1}), fp64({3}, {0, 1, 20}), Operand::result()})[2];
  expect_near(slope, {2, 0.41997434161402614, 0}, 1e-15);
  EXPECT_NEAR(slope[2] / 1.6993417021166355e-17, 1, 1e-13);  // 1 - tanh² would give 0
}

TEST(ReferenceElementwise, HandValues) {
  const Operand a = fp64({3}, {1, 2, 3}), b = fp64({3}, {10, -20, 0.5});
  EXPECT_EQ(run(AddArgs{}, {a, b, Operand::result()})[2], (std::vector<double>{11, -18, 3.5}));
  EXPECT_EQ(run(MultiplyArgs{}, {a, b, Operand::result()})[2], (std::vector<double>{10, -40, 1.5}));
  ScaleArgs scale;
  scale.factor = -2;
  EXPECT_EQ(run(scale, {a, Operand::result()})[1], (std::vector<double>{-2, -4, -6}));
  EXPECT_EQ(run(ReciprocalArgs{}, {integers({4, 0, -2}), Operand::result()})[1],
            (std::vector<double>{0.25, 0, -0.5}));
}

TEST(ReferenceCopy, RoundsOnceToTheNearest) {
  // 1 + 2⁻⁸ lies between the bf16 numbers 1 and 1 + 2⁻⁷: to even. A little more goes up, also when
  // that little is lost on the way through float.
  const double up = 1 + std::ldexp(1.0, -8) + std::ldexp(1.0, -40);
  const auto bf16 = run(
      CopyArgs{},
      {fp64({4}, {1 + std::ldexp(1.0, -8), up, -3, kInf}), Operand::blank({4}, DType::bf16)})[1];
  EXPECT_EQ(bf16, (std::vector<double>{1, 1 + std::ldexp(1.0, -7), -3, kInf}));
  const auto fp16 =
      run(CopyArgs{}, {fp64({3}, {65504, 1e6, -0.25}), Operand::blank({3}, DType::fp16)})[1];
  EXPECT_EQ(fp16, (std::vector<double>{65504, kInf, -0.25}));
  const auto whole = run(CopyArgs{}, {fp64({2}, {3.75, -2}), Operand::blank({2}, DType::i32)})[1];
  EXPECT_EQ(whole, (std::vector<double>{3, -2}));
}

TEST(ReferenceEmbedding, ShardsSumToTheWhole) {
  const Operand ids = integers({0, 3, 1, 3});
  EmbeddingArgs low, high;
  high.first = 2;
  const auto a = run(low, {ids, fp64({2, 1}, {10, 11}), Operand::result()})[2];
  const auto b = run(high, {ids, fp64({2, 1}, {12, 13}), Operand::result()})[2];
  EXPECT_EQ(a, (std::vector<double>{10, 0, 11, 0}));
  EXPECT_EQ(b, (std::vector<double>{0, 13, 0, 13}));
  EmbeddingWeightArgs back;
  back.first = 2;
  EXPECT_EQ(run(back, {ids, fp64({4, 1}, {1, 2, 4, 8}), fp64({2, 1}, {100, 200})})[2],
            (std::vector<double>{100, 210}));
}

}  // namespace reference_test
}  // namespace tessera

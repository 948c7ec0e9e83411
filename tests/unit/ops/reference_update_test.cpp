#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/unit/ops/run.hpp"

namespace tessera {
namespace reference_update_test {

constexpr double kInf = std::numeric_limits<double>::infinity();

Operand scalars(double steps, double rate, double loss_scale, bool found_inf, double scale) {
  return fp64({step_scalar::kCount},
              {steps, rate, loss_scale, found_inf ? 1.0 : 0.0, 0, scale, 0, 0, 0});
}

Operand whole(i64 n) {
  return Operand::given({1, 4}, DType::i64, {static_cast<double>(n), 0, 0, 0});
}
Operand hyper(double lr_scale, double decay) { return fp64({1, 2}, {lr_scale, decay}); }

TEST(ReferenceUpdate, AdamWOneStepByHand) {
  // Step 1: m̂ = g and v̂ = g², so a step is rate · (g / (|g| + eps) + decay · main).
  AdamWArgs args;
  args.eps = 0.5;
  const auto found = run(args,
                         {scalars(1, 0.01, 4, false, 0.25),
                          whole(2),
                          hyper(2, 0.1),
                          fp64({2}, {8, -6}),
                          fp64({2}, {1, 10}),
                          fp64({2}, {0, 0}),
                          fp64({2}, {0, 0}),
                          Operand::blank({2}, DType::fp32)});
  const double a = 1 - 0.02 * (2 / 2.5 + 0.1), b = 10 - 0.02 * (-1.5 / 2.0 + 1);
  EXPECT_EQ(found[3], (std::vector<double>{0, 0}));
  expect_near(found[4], {a, b});
  expect_near(found[5], {0.1 * 2, 0.1 * -1.5});
  expect_near(found[6], {0.001 * 4, 0.001 * 2.25});
  EXPECT_EQ(found[7], (std::vector<double>{static_cast<float>(a), static_cast<float>(b)}));
}

TEST(ReferenceUpdate, AdamWSecondStepCorrectsByTheCount) {
  AdamWArgs args;
  args.beta1 = 0.5;
  args.beta2 = 0.75;
  args.eps = 0;
  const auto found = run(args,
                         {scalars(2, 1, 1, false, 1),
                          whole(1),
                          hyper(1, 0),
                          fp64({1}, {4}),
                          fp64({1}, {0}),
                          fp64({1}, {1}),
                          fp64({1}, {1}),
                          Operand::absent()});
  // m = 2.5, m̂ = 2.5 / (1 - 1/4); v = 0.75 + 4 = 4.75, v̂ = 4.75 / (1 - 9/16).
  expect_near(found[4], {-(2.5 / 0.75) / std::sqrt(4.75 / 0.4375)});
}

TEST(ReferenceUpdate, SgdWithAndWithoutMomentum) {
  SgdArgs args;
  const auto plain = run(args,
                         {scalars(1, 0.1, 1, false, 0.5),
                          whole(1),
                          hyper(1, 0.5),
                          fp64({1}, {6}),
                          fp64({1}, {2}),
                          Operand::absent(),
                          Operand::absent()});
  expect_near(plain[4], {2 - 0.1 * (3 + 1)});
  EXPECT_EQ(plain[3], std::vector<double>{0});
  args.momentum = 0.9;
  const auto heavy = run(args,
                         {scalars(1, 0.1, 1, false, 0.5),
                          whole(1),
                          hyper(1, 0.5),
                          fp64({1}, {6}),
                          fp64({1}, {2}),
                          fp64({1}, {10}),
                          Operand::absent()});
  expect_near(heavy[5], {12});
  expect_near(heavy[4], {2 - 0.1 * (12 + 1)});
}

TEST(ReferenceUpdate, StepScalarsNormClipAndRate) {
  StepScalarsArgs args;
  args.clip = 1;
  const Operand rates = fp64({2}, {0.1, 0.2});
  // The gradients carry the loss scale 4: sqrt(64) / 4 = 2.
  auto now = run(args, {fp64({1}, {64}), rates, scalars(0, 0, 4, false, 0)})[2];
  expect_near(now, {1, 0.1, 4, 0, 2, 1 / (2 + 1e-6) / 4, 0, 0, 0});
  now = run(args, {fp64({1}, {1}), rates, scalars(5, 0, 4, true, 0)})[2];
  expect_near(now, {6, 0.2, 4, 0, 0.25, 0.25, 0, 0, 0});  // below the bound, the ring goes round
  args.clip = 0;
  now = run(args, {fp64({1}, {64}), rates, scalars(1, 0, 4, false, 0)})[2];
  expect_near(now, {2, 0.2, 4, 0, 2, 0.25, 0, 0, 0});
}

TEST(ReferenceUpdate, SumSquaresOfAllOrOfRanges) {
  const Operand x = fp64({4}, {1, -2, 3, 5}), before = fp64({1}, {100});
  EXPECT_EQ(run(SumSquaresArgs{}, {x, Operand::absent(), before})[2], std::vector<double>{139});
  const Operand ranges = Operand::given({2, 2}, DType::i64, {3, 1, 0, 2});
  EXPECT_EQ(run(SumSquaresArgs{}, {x, ranges, before})[2], std::vector<double>{130});
}

TEST(ReferenceUpdate, EachShardHasItsHyperparametersAndGapsStay) {
  const auto found = run(SgdArgs{},
                         {scalars(1, 0.1, 1, false, 1),
                          Operand::given({2, 4}, DType::i64, {1, 0, 0, 0, 1, 2, 1, 1}),
                          fp64({2, 2}, {1, 0, 2, 0.5}),
                          fp64({3}, {1, 1, 1}),
                          fp64({3}, {4, 4, 4}),
                          Operand::absent(),
                          Operand::absent()});
  EXPECT_EQ(found[3], (std::vector<double>{0, 1, 0}));
  expect_near(found[4], {4 - 0.1, 4 - 0.2 * (1 + 2), 4});
}

// Steps that overflow or not, one after the other; what the loss scale is after each.
std::vector<double> scales_after(const LossScaling& scaling,
                                 double start,
                                 const std::vector<bool>& overflows) {
  StepScalarsArgs args;
  args.scaling = scaling;
  std::vector<double> now = {0, 0, start, 0, 0, 0, 0, 0, static_cast<double>(scaling.hysteresis)};
  std::vector<double> scales;
  for (const bool overflow : overflows) {
    const double sum = overflow ? kInf : 1;
    now = run(args, {fp64({1}, {sum}), fp64({1}, {0.1}), fp64({step_scalar::kCount}, now)})[2];
    scales.push_back(now[step_scalar::kLossScale]);
  }
  return scales;
}

TEST(LossScale, GrowsAfterAWindowOfCleanSteps) {
  const LossScaling scaling{.window = 3};
  EXPECT_EQ(scales_after(scaling, 4, std::vector<bool>(7, false)),
            (std::vector<double>{4, 4, 8, 8, 8, 16, 16}));
  EXPECT_EQ(scales_after(scaling, 4, {false, false, true, false, false, false}),
            (std::vector<double>{4, 4, 4, 4, 4, 8}))
      << "an overflow begins the window anew";
}

TEST(LossScale, ShrinksAfterTheFreeOverflowsAndThenAtOnce) {
  const LossScaling scaling{.window = 2, .least = 1, .hysteresis = 3};
  EXPECT_EQ(scales_after(scaling, 64, {true, true, true, true, false, true}),
            (std::vector<double>{64, 64, 32, 16, 16, 8}))
      << "clean steps alone make no overflow free again";
  EXPECT_EQ(scales_after(scaling, 64, {true, true, false, false, true, true, true}),
            (std::vector<double>{64, 64, 64, 128, 128, 128, 64}))
      << "growth does";
}

TEST(LossScale, KeepsItsBounds) {
  const LossScaling one{.window = 100, .growth = 3, .backoff = 0.25, .least = 5, .hysteresis = 1};
  EXPECT_EQ(scales_after(one, 64, {true, true, true}), (std::vector<double>{16, 5, 5}));
  EXPECT_EQ(scales_after({.window = 0}, 64, {true, false}), (std::vector<double>{64, 64}))
      << "a fixed one stays";
}

TEST(LossScale, UnscalesWithTheScaleThatTheGradientsHave) {
  StepScalarsArgs args;
  args.clip = 1;
  args.scaling.window = 1;
  const auto now = run(args, {fp64({1}, {64}), fp64({1}, {0.1}), scalars(0, 0, 4, false, 0)})[2];
  EXPECT_EQ(now[step_scalar::kLossScale], 8) << "of the next step";
  EXPECT_EQ(now[step_scalar::kNorm], 2);
  EXPECT_DOUBLE_EQ(now[step_scalar::kGradientScale], 1 / (2 + 1e-6) / 4);
}

// An overflow is the loss scale's own as long as the scale may fall.
TEST(LossScale, ExplainsOverflowsDownToTheLeast) {
  const auto found = [](const LossScaling& scaling, double scale, double sum) {
    StepScalarsArgs args;
    args.scaling = scaling;
    const auto now =
        run(args, {fp64({1}, {sum}), fp64({1}, {0.1}), scalars(0, 0, scale, false, 0)});
    return now[2][step_scalar::kFoundInf];
  };
  const LossScaling moves{.window = 10, .least = 2};
  EXPECT_EQ(found(moves, 4, kInf), kScaleTooLarge);
  EXPECT_EQ(found(moves, 2, kInf), kNotExplained);
  EXPECT_EQ(found(moves, 2, 1), kFinite);
  EXPECT_EQ(found({}, 4, kInf), kNotExplained) << "a fixed one";
}

// Every CPU device: what an overflow must and must not do.
TEST(Overflow, StepsAndRateStay) {
  for (const std::string& name : cpu_devices()) {
    const auto device = test_device(name);
    for (const double sum : {kInf, std::nan("")}) {
      const auto op =
          testing::op_case("overflow",
                           StepScalarsArgs{},
                           {fp64({1}, {sum}), fp64({1}, {0.1}), scalars(3, 0.7, 4, false, 0)});
      const auto now = testing::run_op(*device, op).values[2];
      EXPECT_EQ(now[step_scalar::kSteps], 3) << name;
      EXPECT_EQ(now[step_scalar::kLearningRate], 0.7) << name;
      EXPECT_EQ(now[step_scalar::kLossScale], 4) << name;
      EXPECT_EQ(now[step_scalar::kFoundInf], kNotExplained) << name;
    }
  }
}

}  // namespace reference_update_test
}  // namespace tessera

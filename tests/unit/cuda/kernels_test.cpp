// Kernels of `cuda` on the emulator, where the cases of the kit do not reach: rows and columns of
// several turns of a block, every conversion, and bits that must not depend on how work is cut.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <utility>

#include "tessera/device/core_ops.hpp"
#include "tessera/random.hpp"
#include "tessera/testing/op_check.hpp"
#include "tests/common/error_of.hpp"
#include "tests/common/rmsnorm.hpp"
#include "tests/unit/ops/devices_support.hpp"

namespace tessera {
namespace cuda_kernels_test {

using testing::InMemory;
using testing::OpCase;
using testing::Operand;
using testing::rmsnorm;
using Values = std::vector<double>;

constexpr DType kFloats[] = {DType::fp32, DType::bf16, DType::fp16, DType::fp64};
constexpr DType kAll[] = {DType::fp64,
                          DType::fp32,
                          DType::fp16,
                          DType::bf16,
                          DType::i64,
                          DType::i32,
                          DType::u8,
                          DType::boolean};
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Device& emulated() {
  static const auto device = test_device("cuda_emulated");
  return *device;
}

template <class Args>
void agrees(const Args& constants,
            std::vector<Operand> operands,
            const testing::Tolerance& tolerance = {}) {
  static const auto reference = test_device("reference");
  const OpCase op =
      op_case(std::string(Args::kName), constants, std::move(operands), {.tolerance = tolerance});
  EXPECT_EQ(op_check(emulated(), *reference, op), "");
}

/// The tensors after a call.
template <class Args>
std::vector<Values> run(const Args& constants, std::vector<Operand> operands) {
  auto outcome = run_op(emulated(), op_case("call", constants, std::move(operands)));
  EXPECT_EQ(outcome.wrong, "");
  return std::move(outcome.values);
}

/// Random operands, no two alike.
class Random {
 public:
  explicit Random(DType dtype) : dtype(dtype) {}
  Operand operator()(const Shape& shape, double low = -1, double high = 1) {
    return of(dtype, shape, low, high);
  }
  Operand statistic(const Shape& shape, double low, double high) {
    return of(dtype == DType::fp64 ? dtype : DType::fp32, shape, low, high);
  }
  Operand of(DType type, const Shape& shape, double low = -1, double high = 1) {
    return Operand::random(shape, type, ++seed_, low, high);
  }
  Operand integers(i64 n, i64 low, i64 high, DType type = DType::i64) {
    return Operand::integers({n}, type, ++seed_, low, high);
  }
  const DType dtype;

 private:
  u64 seed_ = 7000;
};

Operand doubles(const Values& values) {
  return Operand::given({static_cast<i64>(values.size())}, DType::fp64, values);
}

// Widths of one turn and of several, aligned and not, and a block of the narrow ones only.
class Wide : public ::testing::TestWithParam<std::pair<DType, i64>> {};

TEST_P(Wide, RowsAgreeWithReference) {
  const auto [dtype, h] = GetParam();
  Random random(dtype);
  const auto row = [&, h = h] { return random({h}); };
  const auto rows = [&, h = h] { return random({3, h}, -2, 3); };
  const auto mean = [&] { return random.statistic({3}, -1, 1); };
  const auto rstd = [&] { return random.statistic({3}, 0.5, 1.5); };
  agrees(LayerNormArgs{},
         {rows(), row(), row(), Operand::result(), Operand::result(), Operand::result()},
         {.relative = 5e-6});
  agrees(LayerNormBackwardArgs{},
         {rows(), rows(), row(), mean(), rstd(), Operand::result()},
         {.relative = 5e-6});
  agrees(LayerNormBackwardAddArgs{},
         {rows(), rows(), row(), mean(), rstd(), rows(), Operand::alias(5)},
         {.relative = 5e-6});
  const Operand none = Operand::absent();
  agrees(rmsnorm<LayerNormArgs>(),
         {rows(), row(), none, Operand::result(), none, Operand::result()},
         {.relative = 5e-6});
  agrees(rmsnorm<LayerNormBackwardArgs>(),
         {rows(), rows(), row(), none, rstd(), Operand::result()},
         {.relative = 5e-6});
  agrees(rmsnorm<LayerNormBackwardAddArgs>(),
         {rows(), rows(), row(), none, rstd(), rows(), Operand::alias(5)},
         {.relative = 5e-6});
  agrees(AddBiasArgs{}, {rows(), row(), Operand::alias(0)});
  agrees(EmbeddingArgs{}, {random.integers(9, 0, 5), rows(), Operand::result()});
  for (const i64 offset : {0, 4, 127}) {
    DropoutArgs dropout;
    dropout.key = 99;
    dropout.p = 0.3;
    dropout.feature_offset = offset;
    agrees(dropout, {rows(), rows(), random.integers(3, 0, 1 << 30), Operand::alias(0)});
  }
}

TEST_P(Wide, LossesAgreeWithReference) {
  const auto [dtype, h] = GetParam();
  Random random(dtype);
  WholeCrossEntropyArgs args;
  for (const i64 valid : {h, h - 3, h - 64}) {
    args.valid = valid;
    agrees(args,
           {random({4, h}, -9, 9),
            random.integers(4, 0, valid),
            random.integers(4, 0, 2, DType::u8),
            doubles({0.125}),
            doubles({1024}),
            Operand::result(),
            Operand::alias(0)});
  }
}

TEST_P(Wide, ColumnsAgreeWithReference) {
  const auto [dtype, h] = GetParam();
  if (h > 3000) return;  // the same code
  Random random(dtype);
  agrees(ColumnSumArgs{}, {random({333, h}), random({h})}, {.relative = 5e-6});
  agrees(LayerNormWeightArgs{},
         {random({333, h}),
          random({333, h}),
          random.statistic({333}, -1, 1),
          random.statistic({333}, 0.5, 1.5),
          random.statistic({h}, -1, 1),
          random({h})},
         {.relative = 5e-6});
  agrees(rmsnorm<LayerNormWeightArgs>(),
         {random({333, h}),
          random({333, h}),
          Operand::absent(),
          random.statistic({333}, 0.5, 1.5),
          random.statistic({h}, -1, 1),
          Operand::absent()},
         {.relative = 5e-6});
}

INSTANTIATE_TEST_SUITE_P(CudaKernels,
                         Wide,
                         ::testing::Values(std::pair{DType::fp32, 768},
                                           std::pair{DType::fp32, 2049},
                                           std::pair{DType::fp32, 5000},
                                           std::pair{DType::bf16, 768},
                                           std::pair{DType::bf16, 5000},
                                           std::pair{DType::fp16, 2049},
                                           std::pair{DType::fp64, 1026}),
                         [](const auto& info) {
                           return fmt::format(
                               "{}_{}", dtype_name(info.param.first), info.param.second);
                         });

TEST(CudaKernels, FrequentIdsAreAddedInOrder) {
  for (const DType dtype : kFloats) {
    Random random(dtype);
    for (const i64 h : {5, 128, 300}) {
      for (const DType sums : {dtype, random.statistic({}, 0, 1).dtype}) {
        agrees(EmbeddingWeightArgs{},
               {random.integers(200, -1, 3), random({200, h}), random.of(sums, {3, h})},
               {.relative = 1e-5});
      }
    }
  }
}

// More experts than a warp has lanes, more tiles than blocks that stay, and NaN in rows that others
// must not see: those of the last expert, and padding.
TEST(CudaKernels, ProductsOfManyExperts) {
  struct Size {
    DType dtype;
    i64 k, n;
  };
  for (const auto& [dtype, k, n] :
       {Size{DType::fp32, 20, 700}, {DType::bf16, 37, 131}, {DType::fp64, 37, 70}}) {
    Random random(dtype);
    const i64 all = 70;
    Values counts;
    i64 m = 0, last = 0;
    for (i64 e = 0; e < all; ++e) {
      last = e == 40 ? 150 : e * 29 % 37;
      counts.push_back(static_cast<double>(last));
      m += last;
    }
    const auto rows = [&](i64 width) {
      Operand x = random({m + 80, width});
      for (i64 row = m - last; row < m + 80; row += 3) {
        x.values[static_cast<std::size_t>(row * width)] = kNaN;
      }
      return x;
    };
    const Operand given = Operand::given({all}, DType::i64, counts);
    GroupedMatmulArgs product;
    agrees(product, {rows(k), given, random({all, k, n}), Operand::result()});
    product.transpose_b = true;
    agrees(product, {rows(k), given, random({all, n, k}), Operand::result()});
    agrees(GroupedWeightArgs{},
           {rows(k), given, rows(n), random.statistic({all, k, n}, -1, 1)},
           {.relative = 5e-6});
  }
}

TEST(CudaKernels, OrdersOfManyChoices) {
  Random random(DType::fp32);
  const i64 all = 1000, n = 900, k = 3;  // several tiles, more keys than a warp has lanes
  Operand experts = random.integers(n * k, -1, all + 1, DType::i32);
  experts.shape = {n, k};
  SortByExpertArgs sort;
  sort.all = all;
  agrees(sort, {experts, Operand::result(), Operand::result()}, {0, 0});
  ExpertCountsArgs counts;
  counts.all = all;
  counts.rows = {.first = 100, .positions = 350, .sequences = 3};
  agrees(counts, {experts, Operand::result()}, {0, 0});
  PadOrderArgs pad;
  pad.places = 700;
  agrees(pad,
         {random.integers(2000, 0, 2000, DType::i32),
          Operand::given({5}, DType::i64, {300, -7, 900, 750, 200}),
          Operand::result()},
         {0, 0});
}

TEST(CudaKernels, ExpertsTakeTheFirstOfEqualChoices) {
  Random random(DType::bf16);
  const i64 n = 500, k = 2;
  // Weights and shares of a few values only, so that many are equal.
  Operand weights = Operand::integers({n, k}, DType::fp32, 5, 0, 3);
  weights.values[7] = kNaN;
  Operand experts = random.integers(n * k, 0, 4, DType::i32);
  experts.shape = {n, k};
  KeepChoicesArgs keep;
  keep.all = 4;
  keep.limit = 60;
  keep.first = 100;
  keep.rows = 300;
  for (const bool per_sample : {true, false}) {
    keep.per_sample = per_sample;
    Values rows;
    for (i64 i = 0; i < n; ++i) {
      rows.push_back(static_cast<double>(row_id(i % 2, (i * 7) % n)));
    }
    const Operand ids = Operand::given({n}, DType::i64, rows);
    agrees(keep, {experts, weights, ids, Operand::result()}, {0, 0});
    agrees(keep, {experts, Operand::absent(), ids, Operand::result()}, {0, 0});
  }

  ExpertChoiceArgs choose;
  choose.rows = 90;
  choose.length = 600;
  choose.n = 1200;
  Values positions;
  for (i64 i = 0; i < 1200; ++i) positions.push_back(static_cast<double>(i * 7 % 600));
  agrees(choose,
         {Operand::integers({1200, 3}, DType::bf16, 6, 0, 3),
          Operand::given({1200}, DType::i64, positions),
          Operand::result()},
         {0, 0});
}

TEST(CudaKernels, RoutersOfManyExperts) {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    Random random(dtype);
    const RouterSpec spec{
        .top_k = 40, .score = RouterScore::sigmoid, .groups = 16, .group_top_k = 4, .scale = 2};
    TopkExpertsArgs choose;
    choose.spec = spec;
    agrees(choose, {random({3, 1024}, -4, 4), Operand::absent(), Operand::result()}, {0, 0});
    Operand experts = random.integers(3 * 40, -1, 1025, DType::i32);
    experts.shape = {3, 40};
    RouterWeightsArgs weigh;
    weigh.spec = spec;
    agrees(weigh, {random({3, 1024}, -4, 4), experts, Operand::result()}, {.relative = 5e-6});
    RouterWeightsBackwardArgs back;
    back.spec = spec;
    agrees(back,
           {random.statistic({3, 40}, -1, 1), random({3, 1024}, -4, 4), experts, Operand::result()},
           {.relative = 5e-6, .absolute = 1e-7});
    // Rows with NaN have some different experts.
    choose.spec = {.top_k = 3};
    const Values chosen = run(choose,
                              {Operand::given({1, 4}, dtype, {kNaN, kNaN, 1, kNaN}),
                               Operand::absent(),
                               Operand::result()})[2];
    EXPECT_EQ(std::set<double>(chosen.begin(), chosen.end()).size(), 3U);
  }
}

TEST(CudaKernels, EveryConversion) {
  Random random(DType::fp64);
  for (const DType from : kAll) {
    for (const DType to : kAll) {
      const auto is_small = [](DType type) { return type == DType::u8 || type == DType::boolean; };
      const i64 least = is_small(from) || is_small(to) ? 0 : -200;
      const i64 most = from == DType::boolean ? 2 : 200;
      for (const InMemory in_memory : {InMemory::dense, InMemory::transposed}) {
        Operand x = random.integers(6 * 5 * 4 * 3, least, most, from);
        x.shape = {6, 5, 4, 3};
        agrees(CopyArgs{}, {std::move(x).in(in_memory), Operand::blank({6, 5, 4, 3}, to)}, {0, 0});
      }
    }
  }
  // Between integers by no floating type, and what no 53 bits hold.
  const auto i32_of = [&](double value) {
    return run(CopyArgs{},
               {Operand::given({1}, DType::i64, {value}), Operand::blank({1}, DType::i32)})[1];
  };
  EXPECT_EQ(i32_of(-2147483648.0), Values{-2147483648.0});
}

TEST(CudaKernels, CopiesOfAllStrides) {
  const InMemory ways[] = {InMemory::dense, InMemory::padded, InMemory::transposed};
  for (const DType dtype : {DType::fp32, DType::bf16, DType::u8}) {
    for (const Shape& shape :
         {Shape{2, 3, 2, 3, 2, 16}, Shape{64, 64}, Shape{1, 1, 1}, Shape{5, 1, 8, 1}}) {
      for (const InMemory from : ways) {
        for (const InMemory to : ways) {
          agrees(CopyArgs{},
                 {Operand::integers(shape, dtype, 5, 0, 200).in(from),
                  Operand::blank(shape, dtype).in(to)},
                 {0, 0});
        }
      }
    }
  }
}

TEST(CudaKernels, WhatIsNotFiniteStaysSo) {
  for (const DType dtype : kFloats) {
    const Operand x = Operand::given({5}, dtype, {kInf, -kInf, kNaN, 1, 60000});
    agrees(AddArgs{}, {x, x, Operand::result()});
    agrees(GeluArgs{}, {x, Operand::result()});
    agrees(GeluErfArgs{}, {x, Operand::result()});
    const Operand grad = Operand::given({5}, dtype, {1, 1, 1, 1, 1});
    agrees(GeluErfBackwardArgs{}, {grad, x, Operand::result()});
    agrees(TanhArgs{}, {x, Operand::result()});
    agrees(TanhBackwardArgs{}, {grad, x, Operand::result()});
    for (const DType to : kFloats) agrees(CopyArgs{}, {x, Operand::blank({5}, to)});
    // The slope at a large number is 0 or 1, though its square overflows.
    const Operand large = Operand::given({2}, dtype, {60000, -60000});
    agrees(GeluBackwardArgs{}, {Operand::given({2}, dtype, {1, 1}), large, Operand::result()});
    const Operand logits = Operand::given({1, 3}, dtype, {1, kNaN, 0});
    CrossEntropyMaxArgs max;
    max.valid = 3;
    EXPECT_NE(run(max, {logits, Operand::result()})[1][0], 1);  // the loss will not be finite
    DropoutArgs dropout;
    dropout.p = 0.75;  // what is dropped is 0, whatever it was
    agrees(dropout,
           {Operand::given({1, 8}, dtype, Values(8, kInf)),
            Operand::absent(),
            Operand::integers({1}, DType::i64, 3, 0, 9),
            Operand::result()});
  }
  agrees(MaximumArgs{}, {doubles({kNaN, 1, 2}), doubles({1, kNaN, 3}), Operand::result()});
}

TEST(CudaKernels, SumSquaresHasTheBitsOfItsParts) {
  const i64 n = 50000;
  Random random(DType::fp32);
  const Operand x = random({n});
  const std::vector<std::pair<i64, i64>> ranges = {{3, 5}, {8, 8192}, {8205, 30000}, {40000, 9999}};
  Values flat, blocks, of_range;
  Values total = {0.5};
  i64 place = 0;
  for (const auto& [begin, length] : ranges) {
    flat.insert(flat.end(), {double(begin), double(length)});
    const Operand one = Operand::given({1, 2}, DType::i64, {double(begin), double(length)});
    total = run(SumSquaresArgs{}, {x, one, doubles(total)})[2];
    const i64 first = place;
    for (i64 at = 0; at < length; at += kSquareBlock, ++place) {
      const i64 here = std::min(kSquareBlock, length - at);
      blocks.insert(blocks.end(), {double(begin + at), double(here), double(place)});
    }
    of_range.insert(of_range.end(), {double(first), double(place - first)});
  }
  const auto table = [](const Values& values, i64 columns) {
    return Operand::given({static_cast<i64>(values.size()) / columns, columns}, DType::i64, values);
  };
  EXPECT_EQ(run(SumSquaresArgs{}, {x, table(flat, 2), doubles({0.5})})[2], total);
  const Values sums =
      run(BlockSquaresArgs{},
          {x, table(blocks, 3), doubles(Values(static_cast<std::size_t>(place), 0))})[2];
  EXPECT_EQ(run(SumBlocksArgs{}, {doubles(sums), table(of_range, 2), doubles({0.5})})[2], total);
  // More ranges than a block has warps, and an address that is not aligned.
  Values many;
  for (i64 r = 0; r < 70; ++r) many.insert(many.end(), {double(r * 700), double(r * 10)});
  const Values once = run(SumSquaresArgs{}, {x, table(many, 2), doubles({1})})[2];
  Operand moved = x;
  EXPECT_EQ(run(SumSquaresArgs{},
                {std::move(moved).in(InMemory::padded), table(many, 2), doubles({1})})[2],
            once);
  agrees(SumSquaresArgs{}, {x, table(many, 2), doubles({1})}, {.relative = 1e-9});
}

// A row has the same bits wherever it lies, and sums of a shard however it is cut.
TEST(CudaKernels, BitsDoNotDependOnAddresses) {
  Random random(DType::fp32);
  const i64 h = 516;
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    const Operand x = random.of(dtype, {1, h}), weight = random.of(dtype, {h});
    std::vector<Values> results;
    for (const InMemory in_memory : {InMemory::dense, InMemory::padded}) {
      Operand placed = x;
      const auto after = run(LayerNormArgs{},
                             {std::move(placed).in(in_memory),
                              weight,
                              weight,
                              Operand::result(),
                              Operand::result(),
                              Operand::result()});
      results.push_back(after[3]);
      results.push_back(after[5]);
    }
    EXPECT_EQ(results[0], results[2]);
    EXPECT_EQ(results[1], results[3]);
  }
}

TEST(CudaKernels, RulesHaveTheSameBitsHoweverShardsAreCut) {
  const i64 n = 9001;
  Random random(DType::fp32);
  const Operand grad = random({n}, -256, 256), main = random({n}), first = random({n}),
                second = random({n}, 0.01, 1);
  Values scalars(step_scalar::kCount);
  scalars[step_scalar::kSteps] = 7;
  scalars[step_scalar::kLearningRate] = 0.05;
  scalars[step_scalar::kGradientScale] = 0.7 / 256;
  const auto cut = [&](const std::vector<i64>& ends, DType copy) {
    Values ranges, hyper;
    i64 begin = 0;
    for (const i64 end : ends) {
      const double at = static_cast<double>(begin);
      ranges.insert(ranges.end(), {static_cast<double>(end - begin), at, at, at});
      hyper.insert(hyper.end(), {0.5, 0.1});
      begin = end;
    }
    const i64 count = static_cast<i64>(ends.size());
    const auto adamw = run(AdamWArgs{},
                           {doubles(scalars),
                            Operand::given({count, 4}, DType::i64, ranges),
                            Operand::given({count, 2}, DType::fp64, hyper),
                            grad,
                            main,
                            first,
                            second,
                            Operand::blank({n}, copy)});
    SgdArgs args;
    args.momentum = 0.9;
    const auto sgd = run(args,
                         {doubles(scalars),
                          Operand::given({count, 4}, DType::i64, ranges),
                          Operand::given({count, 2}, DType::fp64, hyper),
                          grad,
                          main,
                          first,
                          Operand::blank({n}, copy)});
    return std::vector{adamw[4], adamw[5], adamw[6], adamw[7], sgd[4], sgd[5], sgd[6]};
  };
  for (const DType copy : kFloats) {
    EXPECT_EQ(cut({n}, copy), cut({1, 4097, 4099, 8195, n}, copy));
  }
}

TEST(CudaKernels, RulesRefuseNarrowMain) {
  const Operand x = Operand::given({4}, DType::bf16, {1, 2, 3, 4});
  const auto narrow = [&] {
    run(SgdArgs{},
        {doubles(Values(step_scalar::kCount, 0)),
         Operand::given({1, 4}, DType::i64, {4, 0, 0, 0}),
         Operand::given({1, 2}, DType::fp64, {1, 0}),
         x,
         x,
         Operand::absent(),
         Operand::absent()});
  };
  EXPECT_THAT(testing::error_of([&] { narrow(); }),
              ::testing::HasSubstr("updates fp32 or fp64, not bf16: keep main parameters and "
                                   "gradients in fp32"));
}

// Operations that do the work of several have their bits.
TEST(CudaKernels, FusedOperationsHaveTheBitsOfTheirParts) {
  Random random(DType::fp32);
  const Shape shape{5, 770};
  const Operand grad = random(shape), x = random(shape), weight = random({770}),
                sum = random(shape), mean = random({5}), rstd = random({5}, 0.5, 1.5);
  const Values alone =
      run(LayerNormBackwardArgs{}, {grad, x, weight, mean, rstd, Operand::result()})[5];
  EXPECT_EQ(
      run(LayerNormBackwardAddArgs{}, {grad, x, weight, mean, rstd, sum, Operand::result()})[6],
      run(AddArgs{}, {sum, Operand::given(shape, DType::fp32, alone), Operand::result()})[2]);
  const Operand none = Operand::absent();
  const Values rms =
      run(rmsnorm<LayerNormBackwardArgs>(), {grad, x, weight, none, rstd, Operand::result()})[5];
  EXPECT_EQ(run(rmsnorm<LayerNormBackwardAddArgs>(),
                {grad, x, weight, none, rstd, sum, Operand::result()})[6],
            run(AddArgs{}, {sum, Operand::given(shape, DType::fp32, rms), Operand::result()})[2]);

  const Operand logits = random(shape, -4, 4), targets = random.integers(5, 0, 760),
                mask = random.integers(5, 0, 2, DType::u8);
  WholeCrossEntropyArgs whole;
  CrossEntropyMaxArgs max;
  CrossEntropySumsArgs sums;
  CrossEntropyGradArgs gradient;
  whole.valid = max.valid = sums.valid = gradient.valid = 760;
  const auto at_once = run(whole,
                           {logits,
                            targets,
                            mask,
                            doubles({0.125}),
                            doubles({3}),
                            Operand::result(),
                            Operand::blank(shape, DType::fp32)});
  const Operand largest =
      Operand::given({5}, DType::fp32, run(max, {logits, Operand::result()})[1]);
  const Operand denominators = Operand::given(
      {5, 2}, DType::fp32, run(sums, {logits, targets, largest, Operand::result()})[3]);
  EXPECT_EQ(at_once[5], denominators.values);
  EXPECT_EQ(at_once[6],
            run(gradient,
                {logits,
                 targets,
                 largest,
                 denominators,
                 mask,
                 doubles({0.125}),
                 doubles({3}),
                 Operand::result()})[7]);
}

}  // namespace cuda_kernels_test
}  // namespace tessera

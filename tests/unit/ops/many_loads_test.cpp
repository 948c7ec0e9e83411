// Experts get other numbers of rows in every step: products of 10,000 loads, one after the other.
#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/moe_ops.hpp"
#include "tessera/random.hpp"
#include "tessera/testing/workbench.hpp"
#include "tests/unit/ops/devices_support.hpp"

namespace tessera {
namespace many_loads_test {

constexpr i64 kExperts = 4, kIn = 512, kOut = 8, kMostRows = 4096;

// Rows of the experts: from none to kMostRows in all, spread at random.
std::vector<i64> load_of(u32 number) {
  const Philox::Words words = Philox::words(17, {number});
  i64 rows = words[0] % (kMostRows / (1 + words[1] % 256) + 1);
  std::vector<i64> counts;
  for (i64 e = 0; e < kExperts; ++e) {
    const i64 here =
        e + 1 < kExperts ? words[static_cast<std::size_t>(2 + e % 2)] % (rows + 1) : rows;
    counts.push_back(here);
    rows -= here;
  }
  return counts;
}

TEST(ManyLoads, GrowNoCacheAndAskForMemoryOnlyWhereTheLoadIsTheLargestSoFar) {
  const auto device = test_device("cpu");
  testing::Workbench bench(*device);
  Context& cx = bench.context();
  const auto weight =
      bench.parameter("weight", bench.random({kExperts, kIn, 2 * kOut}, DType::fp32, 1, -0.1, 0.1));
  const auto counts = cx.empty({kExperts}, DType::i64);
  Tape tape;
  i64 largest = -1, calls = device->memory().system_calls, grown = 0;
  for (u32 number = 0; number < 10000; ++number) {
    const std::vector<i64> load = load_of(number);
    i64 rows = 0;
    for (const i64 count : load) rows += count;
    device->write(counts, load.data());
    std::vector<Tensor> x = {cx.empty({rows, kIn}, DType::fp32).with_var(kNeedsGradient)};
    cx.tape = &tape;
    const Tape::FrameId frame = tape.begin(x);
    Tensor y = ops::grouped_linear(cx, x[0], *weight, counts);
    y = ops::weighted_activation(cx, y, {}, Activation::swiglu);
    tape.end(std::vector<Tensor>{y});
    std::vector<Tape::Gradient> gradients = Tape::gradients({cx.empty({rows, kOut}, DType::fp32)});
    tape.backward(cx, frame, Half::both, gradients);
    cx.tape = nullptr;

    const i64 now = device->memory().system_calls;
    if (now != calls) {
      ++grown;
      EXPECT_GT(rows, largest) << "load " << number;
    }
    calls = now;
    largest = std::max(largest, rows);
    if (number == 0) continue;
    GroupedMatmulArgs args{x[0].arg(), counts.arg(), weight->compute.arg(), {}};
    GroupedMatmulArgs::infer(args);
    const Kernel& kernel = *device->find(GroupedMatmulArgs::kName);
    if (kernel.prepare) {
      EXPECT_FALSE(kernel.prepare(&args).first_use) << "load " << number;
    }
  }
  EXPECT_GT(grown, 0);
}

// One expert's rows, with those of others around them.
struct Grouped {
  std::vector<double> products, weights;
  bool operator==(const Grouped&) const = default;
};

constexpr i64 kDeep = 200, kNarrow = 70;

// The product of the expert in the middle, which has `rows` rows: the first ones of 1,200, which
// are more than are summed at once.
Grouped of_the_middle(Device& device, DType dtype, i64 before, i64 rows, i64 after) {
  testing::Workbench bench(device);
  Context& cx = bench.context();
  const auto fill = [&](i64 width, u64 seed) {
    const Tensor own = bench.random({1200, width}, dtype, seed + 1);
    const Tensor x = bench.random({before + rows + after, width}, dtype, seed + 2);
    CopyArgs copy{own.slice(0, 0, rows).arg(), x.slice(0, before, rows).arg()};
    ops::run(cx, copy);
    return x;
  };
  const Tensor x = fill(kDeep, 1), gradient = fill(kNarrow, 11);
  const Tensor counts = bench.tensor(
      {3},
      DType::i64,
      {static_cast<double>(before), static_cast<double>(rows), static_cast<double>(after)});
  const Tensor weight = bench.random({3, kDeep, kNarrow}, dtype, 21);
  const Tensor sums =
      bench.tensor({3, kDeep, kNarrow}, DType::fp32, std::vector<double>(3 * kDeep * kNarrow, 0));
  GroupedMatmulArgs product{x.arg(), counts.arg(), weight.arg(), {}};
  const Tensor y = ops::run(cx, product)[0];
  GroupedWeightArgs add{x.arg(), counts.arg(), gradient.arg(), sums.arg()};
  ops::run(cx, add);
  return {testing::read(y.slice(0, before, rows)), testing::read(sums.slice(0, 1, 1))};
}

// Layouts give an expert's rows other neighbours, other threads and other places.
TEST(ManyLoads, AnExpertsBitsDependOnNeitherTheOthersLoadsNorThreads) {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    for (const i64 rows : {37, 1200}) {
      SCOPED_TRACE(fmt::format("{} rows of {}", rows, dtype_name(dtype)));
      const Grouped alone = of_the_middle(*test_device("cpu", 1), dtype, 0, rows, 0);
      for (const int threads : {1, 3}) {
        const auto device = test_device("cpu", threads);
        EXPECT_EQ(of_the_middle(*device, dtype, 5, rows, 90), alone) << threads;
        EXPECT_EQ(of_the_middle(*device, dtype, 131, rows, 0), alone) << threads;
      }
      const Grouped more = of_the_middle(*test_device("cpu", 2), dtype, 3, 1200, 8);
      const auto begin = more.products.begin();
      EXPECT_EQ(std::vector(begin, begin + rows * kNarrow), alone.products) << "as first rows";
    }
  }
}

}  // namespace many_loads_test
}  // namespace tessera

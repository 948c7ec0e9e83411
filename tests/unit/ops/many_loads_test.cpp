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
    y = ops::weighted_swiglu(cx, y, {});
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

}  // namespace many_loads_test
}  // namespace tessera

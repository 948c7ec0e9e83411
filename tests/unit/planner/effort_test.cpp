#include "kernel/planner/effort.hpp"

#include <gtest/gtest.h>

#include "tessera/ops/attention.hpp"
#include "tessera/ops/embedding.hpp"
#include "tessera/ops/matmul.hpp"

namespace tessera {
namespace effort_test {

TensorArg tensor(std::initializer_list<i64> shape, DType dtype = DType::fp32) {
  static float none = 0;
  TensorArg arg;
  arg.address = &none;
  arg.dtype = dtype;
  for (const i64 n : shape) arg.shape[arg.rank++] = n;
  return arg;
}

template <class Args>
Effort effort(const Args& args) {
  return make_kernel<Args>([](const Args&) {}).effort(&args);
}

TEST(Efforts, OfProducts) {
  MatmulArgs args;
  args.a = tensor({3, 5});
  args.b = tensor({5, 7});
  args.out = tensor({3, 7});
  EXPECT_EQ(effort(args).flops, 2 * 3 * 5 * 7);
  EXPECT_EQ(effort(args).total_bytes(), 4 * (15 + 35 + 21));
  args.a = tensor({5, 3});
  args.transpose_a = true;
  EXPECT_EQ(effort(args).flops, 2 * 3 * 5 * 7);
}

double attention(i64 queries, i64 keys, bool causal, i64 offset, i64 window = 0) {
  AttentionArgs args;
  args.q = tensor({2, queries, 3, 4});
  args.k = args.v = tensor({2, keys, 3, 4});
  args.spec.causal = causal;
  args.spec.causal_offset = offset;
  args.spec.window = window;
  return effort(args).flops / (2 * 2 * 2 * 3 * 4);  // the visible area
}

TEST(Efforts, OfAttentionCountTheVisibleArea) {
  EXPECT_EQ(attention(8, 8, false, 0), 64);
  EXPECT_EQ(attention(8, 8, true, 0), 32);
  EXPECT_EQ(attention(4, 8, true, 4), 24);  // the second half of the queries
  EXPECT_EQ(attention(4, 4, true, 4), 16);  // all keys are before
  EXPECT_EQ(attention(4, 4, true, -4), 0);  // all keys are behind
  EXPECT_EQ(attention(4, 8, true, 0) + attention(4, 8, true, 4), attention(8, 8, true, 0));
  EXPECT_EQ(attention(8, 8, true, 0, 8), 32);
  EXPECT_EQ(attention(8, 8, true, 0, 2), 14);   // of 32, those more than 2 back: 6² / 2
  EXPECT_EQ(attention(4, 4, true, 4, 3), 4.5);  // of keys 0 to 3, queries are at 4 to 7
}

TEST(Efforts, OfAttentionCountKeysAndValues) {
  AttentionArgs args;
  args.q = tensor({1, 8, 1, 6});
  args.k = tensor({1, 8, 1, 6});
  args.v = tensor({1, 8, 1, 4});
  args.spec.causal = false;
  EXPECT_EQ(effort(args).flops, 2 * 64 * (6 + 4));
}

TEST(Efforts, OfAttentionBackwardAreTwiceTheForward) {
  AttentionBackwardArgs args;
  args.q = tensor({1, 8, 1, 4});
  args.k = args.v = tensor({1, 8, 1, 4});
  EXPECT_EQ(effort(args).flops, 2 * 4 * 4 * 32);
}

TEST(Efforts, OfLookupsAreTheRowsLookedUp) {
  EmbeddingArgs args;
  args.ids = tensor({10}, DType::i64);
  args.table = tensor({50000, 4});
  args.out = tensor({10, 4});
  EXPECT_EQ(effort(args).flops, 0);
  EXPECT_EQ(effort(args).total_bytes(), 80 + 2 * 160);
}

TEST(Efforts, TakeTheLongerOfWorkAndMoving) {
  Hardware hardware;
  hardware.launch_latency = 1;
  hardware.peak = {.fp32 = 100, .efficiency = 0.5};
  hardware.memory = {10, 0.5};
  const auto moved = [](double flops, double bytes) {
    Effort effort{.flops = flops};
    effort.bytes[static_cast<std::size_t>(DType::fp32)] = bytes;
    return effort;
  };
  EXPECT_EQ(seconds_of(moved(500, 5), hardware), 1 + 10);
  EXPECT_EQ(seconds_of(moved(5, 500), hardware), 1 + 100);
  EXPECT_EQ(seconds_of(moved(5, 500), hardware, {.replayed = true}), 100)
      << "a graph has a latency of its own";
  hardware.peak.tf32 = 800;
  EXPECT_EQ(seconds_of(moved(4000, 0), hardware, {.tf32 = true}), 1 + 10);
}

}  // namespace effort_test
}  // namespace tessera

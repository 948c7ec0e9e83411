// Emulated tile registers (tests/unit/ops/amx_emulated) do what Intel's SDM says of
// TDPBF16PS. The kernels on them are tested with the other instruction sets
// (tests/unit/ops/cpu_kernels_test.cpp).
#define TESSERA_ISA cpu_tile_test
#define TESSERA_BASE_ISA baseline
#include "simd/tile.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>

namespace tessera::cpu::cpu_tile_test {

using Words = std::array<u32, 256>;
using Sums = std::array<float, 256>;

constexpr u32 kOne = 0x3F80, kSmallestNormal = 0x0080, kSubnormal = 0x0001;  // bf16
constexpr float kInfinity = std::numeric_limits<float>::infinity();

u32 pair(u32 first, u32 second) { return first | second << 16; }
float value(u32 bf16) { return std::bit_cast<float>(bf16 << 16); }

/// sums + left · right.
Sums product(const Words& left, const Words& right, Sums sums) {
  const TileScope tiles;
  SumTile<1>::load(sums.data(), kTileSide);
  LeftTile<5>::load(left.data(), 4 * kTileSide);
  RightTile<7>::load(right.data(), kTileSide);
  multiply_add(SumTile<1>{}, LeftTile<5>{}, RightTile<7>{});
  SumTile<1>::store(sums.data(), kTileSide);
  return sums;
}

/// The first of the sums, where only the first pairs are not zero.
float product_of_pair(u32 left, u32 right, float sum = 0) {
  Words a{}, b{};
  a[0] = left;
  b[0] = right;
  Sums sums{};
  sums[0] = sum;
  return product(a, b, sums)[0];
}

struct CpuTile : ::testing::Test {
  void SetUp() override {
    // Without it a library rounds for std::fma, and does not flush.
    if (!__builtin_cpu_supports("fma")) GTEST_SKIP() << "this processor has no fma";
  }
};

TEST_F(CpuTile, SumsFirstAndSecondElementsApart) {
  Words left{}, right{};
  Sums sums{};
  u32 state = 1;
  const auto bf16 = [&] {
    state = state * 1664525 + 1013904223;
    return 0x3E00 + (state >> 16) % 0x300 + (state >> 31 << 15);  // 1/8 to 4, both signs
  };
  for (u32& word : left) word = pair(bf16(), bf16());
  for (u32& word : right) word = pair(bf16(), bf16());
  for (float& sum : sums) sum = 1000 * value(bf16());
  const Sums result = product(left, right, sums);
  bool one_chain = true;  // would give the same
  for (std::size_t i = 0; i < 16; ++i) {
    for (std::size_t j = 0; j < 16; ++j) {
      float first = 0, second = 0, both = sums[16 * i + j];
      for (std::size_t p = 0; p < 16; ++p) {
        const u32 a = left[16 * i + p], b = right[16 * p + j];
        first = std::fma(value(a & 0xFFFF), value(b & 0xFFFF), first);
        second = std::fma(value(a >> 16), value(b >> 16), second);
        both = std::fma(value(a & 0xFFFF), value(b & 0xFFFF), both);
        both = std::fma(value(a >> 16), value(b >> 16), both);
      }
      EXPECT_EQ(result[16 * i + j], sums[16 * i + j] + (first + second)) << i << ", " << j;
      one_chain = one_chain && result[16 * i + j] == both;
    }
  }
  EXPECT_FALSE(one_chain);
}

TEST_F(CpuTile, SubnormalsAreZero) {
  EXPECT_EQ(product_of_pair(pair(kSubnormal, kSubnormal), pair(kOne, kOne)), 0);
  EXPECT_EQ(product_of_pair(pair(kOne, kOne), pair(kSubnormal, kSubnormal)), 0);
  const float normal = value(kSmallestNormal);
  EXPECT_EQ(product_of_pair(pair(kSmallestNormal, 0), pair(kOne, 0)), normal);
  constexpr u32 kHalf = 0x3F00;
  EXPECT_EQ(product_of_pair(pair(kSmallestNormal, 0), pair(kHalf, 0)), 0);
  EXPECT_EQ(product_of_pair(pair(kSmallestNormal, 0), pair(kOne, 0), normal / 2), normal);
  EXPECT_EQ(product_of_pair(0, 0, normal / 2), 0);
}

TEST_F(CpuTile, InfinityAndNanPassThrough) {
  constexpr u32 kInf = 0x7F80, kMinus = 0x8000, kNan = 0x7FC0, kLargest = 0x7F7F;
  EXPECT_EQ(product_of_pair(pair(kInf, 0), pair(kOne, 0)), kInfinity);
  EXPECT_EQ(product_of_pair(pair(kInf, 0), pair(kOne | kMinus, 0), 5), -kInfinity);
  EXPECT_TRUE(std::isnan(product_of_pair(pair(kInf, 0), pair(0, 0))));
  EXPECT_TRUE(std::isnan(product_of_pair(pair(kInf, kInf), pair(kOne, kOne | kMinus))));
  EXPECT_TRUE(std::isnan(product_of_pair(pair(kNan, 0), pair(kOne, 0))));
  EXPECT_EQ(product_of_pair(pair(kLargest, 0), pair(kLargest, 0)), kInfinity);
}

TEST_F(CpuTile, NeitherReadsNorChangesTheStateOfOtherArithmetic) {
  constexpr u32 kThree = 0x4040;
  const float sum = 1.0F / 3;
  const float nearest = product_of_pair(pair(kThree, kThree), pair(kThree, kOne), sum);
  const int before = std::fegetround();
  std::feclearexcept(FE_ALL_EXCEPT);
  std::fesetround(FE_TOWARDZERO);
  const u32 state = _mm_getcsr();
  const float toward_zero = product_of_pair(pair(kThree, kThree), pair(kThree, kOne), sum);
  const u32 after = _mm_getcsr();
  std::fesetround(before);
  EXPECT_EQ(after, state);
  EXPECT_EQ(toward_zero, nearest);
  EXPECT_EQ(nearest, 12 + sum);
}

// A kernel that forgets TileScope on a thread must not pass where registers are emulated.
TEST(CpuTileDeathTest, RegistersNeedAScope) {
  EXPECT_DEATH(SumTile<0>::zero(), "");
  EXPECT_DEATH(
      {
        const TileScope outer;
        const TileScope inner;
      },
      "");
}

}  // namespace tessera::cpu::cpu_tile_test

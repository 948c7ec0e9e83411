#include "tessera/random.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace tessera {
namespace random_test {

// The known answers that Random123 publishes for philox4x32-10.
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_EQ(Philox::words(0, {0, 0, 0, 0}),
            (Philox::Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox::words(~u64{0}, {~0U, ~0U, ~0U, ~0U}),
            (Philox::Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox::words(0x299f31d0a4093822, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (Philox::Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// Published XXH64 digests: the keys are the same for ever.
TEST(RandomKey, IsXxh64) {
  EXPECT_EQ(random_key(0, ""), 0xEF46DB3751D8E999);
  EXPECT_EQ(random_key(2654435761, ""), 0xAC75FDA2929B17EF);
  EXPECT_EQ(random_key(0, "abc"), 0x44BC2CF5AD770999);
}

TEST(RandomKey, TellsSeedsAndNamesApart) {
  std::set<u64> keys;
  for (u64 seed = 0; seed < 20; ++seed) {
    for (int layer = 0; layer < 50; ++layer) {
      keys.insert(random_key(seed, "layers." + std::to_string(layer) + ".attention/dropout"));
    }
  }
  EXPECT_EQ(keys.size(), 1000);
}

TEST(RandomUniform, TakesTheUpperBitsOfTwoWords) {
  EXPECT_EQ(random_uniform(0, 0), std::ldexp(double(0x6627e8d5e169c58d >> 11), -53));
  const Philox::Words far = Philox::words(7, {5, 3, 0, 0});
  EXPECT_NEAR(random_uniform(7, (u64{3} << 32) + 5), far[0] / 4294967296.0, 1e-9);
}

TEST(RandomUniform, IsUniform) {
  const int n = 100000;
  double sum = 0, squares = 0;
  int buckets[10] = {};
  for (int i = 0; i < n; ++i) {
    const double x = random_uniform(42, static_cast<u64>(i));
    ASSERT_GE(x, 0);
    ASSERT_LT(x, 1);
    sum += x;
    squares += x * x;
    ++buckets[static_cast<int>(x * 10)];
  }
  EXPECT_NEAR(sum / n, 0.5, 0.004);
  EXPECT_NEAR(squares / n, 1.0 / 3, 0.004);
  for (const int count : buckets) EXPECT_NEAR(count, n / 10.0, 400);
}

TEST(RandomNormal, IsBoxMuller) {
  const Philox::Words words = Philox::words(9, {4, 0, 0, 0});
  const double u = std::ldexp(double(((u64{words[0]} << 32) | words[1]) >> 11), -53);
  const double v = std::ldexp(double(((u64{words[2]} << 32) | words[3]) >> 11), -53);
  EXPECT_DOUBLE_EQ(random_normal(9, 4), std::sqrt(-2 * std::log1p(-u)) * std::cos(2 * M_PI * v));
}

TEST(RandomNormal, HasTheMomentsOfANormal) {
  const int n = 200000;
  double moments[5] = {};
  for (int i = 0; i < n; ++i) {
    const double x = random_normal(1, static_cast<u64>(i));
    ASSERT_TRUE(std::isfinite(x));
    double power = 1;
    for (int k = 1; k <= 4; ++k) moments[k] += power *= x;
  }
  EXPECT_NEAR(moments[1] / n, 0, 0.01);
  EXPECT_NEAR(moments[2] / n, 1, 0.015);
  EXPECT_NEAR(moments[3] / n, 0, 0.04);
  EXPECT_NEAR(moments[4] / n, 3, 0.12);
}

TEST(Rows, PackSampleAndPosition) {
  const i64 row = row_id(123456789, 4095);
  EXPECT_EQ(row_sample(row), 123456789);
  EXPECT_EQ(row_position(row), 4095);
}

}  // namespace random_test
}  // namespace tessera

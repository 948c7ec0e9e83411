// What rounding parameters to another dtype costs, as `tessera convert` tells it.
#include "kernel/train/run/rounded.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "kernel/checkpoint/host_floats.hpp"
#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera {
namespace rounded_test {

std::span<const std::byte> bytes(const std::vector<float>& values) {
  return std::as_bytes(std::span(values));
}

std::vector<double> values_of(DType dtype, const std::vector<std::byte>& bytes) {
  std::vector<double> values;
  for (i64 i = 0; i * dtype_size(dtype) < static_cast<i64>(bytes.size()); ++i) {
    values.push_back(value_at(dtype, bytes, i));
  }
  return values;
}

TEST(Rounded, WhatATypeHoldsCostsNothing) {
  Rounded round(DType::bf16);
  const std::vector<float> values = {0, -1.5F, 0x1.02p100F, std::nanf(""), INFINITY};
  const auto out = values_of(DType::bf16, round("a", bytes(values), DType::fp32));
  for (const std::size_t i : {0, 1, 2, 4}) EXPECT_EQ(out[i], values[i]);
  EXPECT_TRUE(std::isnan(out[3]));
  EXPECT_EQ(round.text(), "");
}

// Halfway between two neighbours it is the even one: bf16 has 8 bits, fp16 11.
TEST(Rounded, IsToNearestEvenAndIsCounted) {
  Rounded bf16(DType::bf16);
  EXPECT_EQ(values_of(DType::bf16,
                      bf16("a", bytes({1, 0x1.01p0F, 0x1.03p0F, -0x1.010002p0F}), DType::fp32)),
            (std::vector<double>{1, 1, 0x1.04p0, -0x1.02p0}));
  bf16("b", bytes({2, 4}), DType::fp32);
  bf16("c", bytes({0x1.01p3F}), DType::fp32);
  EXPECT_EQ(bf16.text(),
            "4 values of 2 parameters are rounded to bf16; the largest error is 0.031, in \"c\"");
  Rounded fp16(DType::fp16);
  EXPECT_EQ(values_of(DType::fp16, fp16("a", bytes({0x1.002p0F, 0x1.006p0F}), DType::fp32)),
            (std::vector<double>{1, 0x1.008p0}));
}

TEST(Rounded, RefusesWhatBecomesInfinite) {
  Rounded fp16(DType::fp16);
  EXPECT_EQ(values_of(DType::fp16, fp16("a", bytes({65504}), DType::fp32)),
            std::vector<double>{65504});
  EXPECT_EQ(text_of<ConfigError>([&] {
              fp16("layers.0.w", bytes({1, 70000}), DType::fp32);
            }),
            "\"layers.0.w\" has the value 70000, which is too large for fp16: write it as bf16 or "
            "fp32");
}

}  // namespace rounded_test
}  // namespace tessera

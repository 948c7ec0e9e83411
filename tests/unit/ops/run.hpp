#pragma once
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tessera/device/core_ops.hpp"
#include "tessera/testing/op_check.hpp"
#include "tests/unit/ops/devices_support.hpp"

namespace tessera {

using testing::Operand;

/// Every tensor of one call after it ran on `reference`.
template <class Args>
std::vector<std::vector<double>> run(const Args& constants, std::vector<Operand> operands) {
  const auto device = test_device("reference");
  auto outcome = testing::run_op(*device, op_case("call", constants, std::move(operands)));
  EXPECT_EQ(outcome.wrong, "");
  return std::move(outcome.values);
}

inline Operand fp64(const Shape& shape, std::vector<double> values) {
  return Operand::given(shape, DType::fp64, std::move(values));
}
inline Operand integers(std::vector<double> values) {
  const Shape shape{static_cast<i64>(values.size())};
  return Operand::given(shape, DType::i64, std::move(values));
}

inline void expect_near(const std::vector<double>& actual,
                        const std::vector<double>& expected,
                        double absolute = 1e-13) {
  EXPECT_EQ(testing::difference(actual, expected, {0, absolute}), "");
}

}  // namespace tessera

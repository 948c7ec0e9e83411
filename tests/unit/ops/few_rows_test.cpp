// Products of a few rows, as a generated token makes them (few_rows.hpp of the cpu device).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

#include "tessera/device/core_ops.hpp"
#include "tessera/testing/op_check.hpp"
#include "tests/unit/ops/devices_support.hpp"

namespace tessera {
namespace few_rows_test {

using testing::OpCase;
using testing::Operand;

class ProductsOfFewRows : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    device_ = cpu_device_on(GetParam());
    if (device_ == nullptr) GTEST_SKIP() << "this processor has no " << GetParam();
  }
  std::shared_ptr<Device> device_;
};

MatmulArgs by_lines(bool accumulate = false) {
  MatmulArgs args;
  args.transpose_b = true;
  args.accumulate = accumulate;
  return args;
}

// Nine rows are more than a few.
TEST_P(ProductsOfFewRows, AgreeWithReferenceUnderAnyThreads) {
  const auto reference = test_device("reference");
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    for (const i64 rows : {1, 2, 3, 4, 5, 7, 8, 9}) {
      for (const auto& [n, k] :
           {std::pair<i64, i64>{1, 7}, {5, 1}, {31, 33}, {33, 130}, {577, 577}}) {
        for (const bool accumulate : {false, true}) {
          const auto memory = accumulate ? testing::InMemory::padded : testing::InMemory::dense;
          const OpCase op =
              testing::op_case(fmt::format("{} {}x{}x{}", dtype_name(dtype), rows, n, k),
                               by_lines(accumulate),
                               {Operand::random({rows, k}, dtype, 1).in(memory),
                                Operand::random({n, k}, dtype, 2).in(memory),
                                accumulate ? Operand::absent() : Operand::random({n}, dtype, 3),
                                Operand::absent(),
                                accumulate ? Operand::random({rows, n}, DType::fp32, 4).in(memory)
                                           : Operand::result()},
                               {.any_threads = true});
          EXPECT_EQ(testing::op_check(*device_, *reference, op), "");
        }
      }
    }
  }
}

// Texts that are generated together have the bits that each has alone.
TEST_P(ProductsOfFewRows, DoNotDependOnOtherRows) {
  constexpr i64 kColumns = 35, kDepth = 77;
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    const i64 all = dtype == DType::fp32 ? 8 : 4;
    const auto product = [&](i64 first, i64 rows) {
      std::vector<double> values;
      for (i64 i = first * kDepth; i < (first + rows) * kDepth; ++i) {
        values.push_back(static_cast<double>(i * 37 % 101) / 64 - 0.75);  // exact in each dtype
      }
      return testing::run_op(*device_,
                             testing::op_case("rows",
                                              by_lines(),
                                              {Operand::given({rows, kDepth}, dtype, values),
                                               Operand::random({kColumns, kDepth}, dtype, 2),
                                               Operand::absent(),
                                               Operand::absent(),
                                               Operand::result()}))
          .values[4];
    };
    std::vector<double> alone;
    for (i64 row = 0; row < all; ++row) {
      const std::vector<double> values = product(row, 1);
      alone.insert(alone.end(), values.begin(), values.end());
    }
    for (i64 rows = 2; rows <= all; ++rows) {
      const std::vector<double> together = product(0, rows);
      ASSERT_EQ(together, std::vector<double>(alone.begin(), alone.begin() + rows * kColumns))
          << dtype_name(dtype) << ", " << rows << " rows";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All,
                         ProductsOfFewRows,
                         ::testing::ValuesIn(kInstructionSets),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace few_rows_test
}  // namespace tessera

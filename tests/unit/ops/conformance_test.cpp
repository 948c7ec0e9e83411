// Every core operation on every CPU device against `reference`. What the reference itself computes
// is checked by closed forms in reference_test.cpp.
#include <gtest/gtest.h>

#include <ostream>
#include <set>

#include "tessera/core_ops.hpp"
#include "tessera/testing/core_op_cases.hpp"
#include "tests/unit/ops/devices_support.hpp"

namespace tessera {
namespace {

using testing::OpCase;

struct Table {
  std::string device;
  DType dtype;
  std::string operation;
};

void PrintTo(const Table& table, std::ostream* out) {
  *out << table.operation << " of " << dtype_name(table.dtype) << " on " << table.device;
}

std::vector<Table> tables() {
  std::vector<Table> all;
  for (const std::string& device : cpu_devices()) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      std::set<std::string> operations;
      for (const OpCase& op : testing::core_op_cases(dtype)) {
        operations.emplace(op.operation);
      }
      // f64 is the reference's: there it checks that no bit depends on threads or runs.
      if (dtype == DType::f64 && device != "reference") continue;
      for (const std::string& operation : operations) all.push_back({device, dtype, operation});
    }
  }
  return all;
}

class Conformance : public ::testing::TestWithParam<Table> {};

TEST_P(Conformance, AgreesWithReference) {
  const Table& table = GetParam();
  const auto device = test_device(table.device);
  const auto reference = test_device("reference");
  int cases = 0;
  for (OpCase& op : testing::core_op_cases(table.dtype)) {
    if (op.operation != table.operation) continue;
    if (table.device == "reference") op.options.any_threads = true;
    EXPECT_EQ(testing::op_check(*device, *reference, op), "");
    ++cases;
  }
  EXPECT_GT(cases, 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, Conformance, ::testing::ValuesIn(tables()), [](const auto& info) {
  const Table& t = info.param;
  return fmt::format("{}_{}_{}", t.device, dtype_name(t.dtype), t.operation);
});

TEST(Conformance, TableHoldsEveryCoreOperation) {
  const auto reference = test_device("reference");
  std::set<std::string> operations;
  for (const OpCase& op : testing::core_op_cases(DType::f32)) operations.emplace(op.operation);
  // CoreOps is one handle after another; each case's operation is one of them.
  EXPECT_EQ(operations.size(), sizeof(CoreOps) / sizeof(Operation<AddArgs>));
  for (const std::string& operation : operations) {
    EXPECT_NE(reference->find(operation), nullptr) << operation;
  }
}

TEST(Conformance, FindsADeviceThatIsWrong) {
  const auto reference = test_device("reference");
  ScaleArgs right, wrong;
  right.factor = 2;
  wrong.factor = 2.001;
  const auto operands = [] {
    return std::vector{testing::Operand::random({17}, DType::f32, 1), testing::Operand::result()};
  };
  const auto a = testing::run_op(*reference, testing::op_case("right", right, operands()));
  const auto b = testing::run_op(*reference, testing::op_case("wrong", wrong, operands()));
  EXPECT_EQ(testing::difference(a.values[1], a.values[1], {}), "");
  EXPECT_NE(testing::difference(a.values[1], b.values[1], {}), "");
}

}  // namespace
}  // namespace tessera

// Every core operation on every CPU device, and on `cuda` over the emulator, against `reference`.
// What the reference itself computes is checked by closed forms in reference_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <set>

#include "tessera/device/core_ops.hpp"
#include "tessera/device/host_device.hpp"
#include "tessera/testing/core_op_cases.hpp"
#include "tests/unit/ops/devices_support.hpp"

namespace tessera {
namespace conformance_test {

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
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16, DType::fp64}) {
    for (const std::string_view name : CoreOperations::names()) {
      all.push_back({"cuda_emulated", dtype, std::string(name)});
    }
  }
  for (const std::string& device : cpu_devices()) {
    for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16, DType::fp64}) {
      // fp64 is the reference's, where it checks that no bit depends on threads or runs.
      if ((dtype == DType::fp64) != (device == "reference")) continue;
      // Tests are listed by name: the cases take too long to make when the program only lists them.
      for (const std::string_view name : CoreOperations::names()) {
        all.push_back({device, dtype, std::string(name)});
      }
    }
  }
  return all;
}

class Conformance : public ::testing::TestWithParam<Table> {};

TEST_P(Conformance, AgreesWithReference) {
  const Table& table = GetParam();
  const auto device = test_device(table.device);
  const std::vector<OpCase>& all = core_cases(table.dtype);
  int cases = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].operation != table.operation) continue;
    OpCase op = all[i];
    if (table.device == "reference") op.options.any_threads = true;
    EXPECT_EQ(testing::op_check(*device, reference_outcome(table.dtype, i), op), "");
    ++cases;
  }
  EXPECT_GT(cases, 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, Conformance, ::testing::ValuesIn(tables()), [](const auto& info) {
  const Table& t = info.param;
  return fmt::format("{}_{}_{}", t.device, dtype_name(t.dtype), t.operation);
});

TEST(Conformance, EveryCoreOperationHasACase) {
  std::set<std::string> operations;
  for (const OpCase& op : core_cases(DType::fp32)) operations.emplace(op.operation);
  EXPECT_THAT(CoreOperations::names(), ::testing::UnorderedElementsAreArray(operations));
}

TEST(Conformance, EveryCoreOperationHasAKernelOnEveryDevice) {
  for (const std::string& name : cpu_devices()) {
    const auto device = test_device(name);
    for (const std::string_view operation : CoreOperations::names()) {
      EXPECT_NE(device->find(operation), nullptr) << operation << " on " << name;
    }
  }
}

/// A device whose only operation is `scale`, done in some wrong way.
template <void (*kScale)(const ScaleArgs&)>
class WrongDevice : public HostDevice {
 public:
  WrongDevice() : HostDevice("wrong", {}, {make_kernel<ScaleArgs>(kScale)}) {}
};

void inexact(const ScaleArgs& args) {
  for (i64 i = 0; i < args.x.elements(); ++i)
    args.out.as<float>()[i] = args.x.as<float>()[i] * 2.001F;
}
void writes_input(const ScaleArgs& args) {
  for (i64 i = 0; i < args.x.elements(); ++i) {
    args.out.as<float>()[i] = args.x.as<float>()[i] *= 2;
  }
}
void writes_past_the_end(const ScaleArgs& args) {
  for (i64 i = 0; i <= args.x.elements(); ++i) args.out.as<float>()[i] = args.x.as<float>()[i] * 2;
  args.out.as<float>()[args.x.elements()] = 0;
}
void forgets_the_last(const ScaleArgs& args) {
  for (i64 i = 0; i + 1 < args.x.elements(); ++i) {
    args.out.as<float>()[i] = args.x.as<float>()[i] * 2;
  }
}
void differs_between_runs(const ScaleArgs& args) {
  static int runs = 0;
  const float factor = ++runs > 1 ? 2.0000002F : 2;
  for (i64 i = 0; i < args.x.elements(); ++i) {
    args.out.as<float>()[i] = args.x.as<float>()[i] * factor;
  }
}

template <void (*kScale)(const ScaleArgs&)>
std::string check_wrong() {
  WrongDevice<kScale> device;
  ScaleArgs args;
  args.factor = 2;
  const auto op = testing::op_case(
      "x", args, {testing::Operand::random({17}, DType::fp32, 1), testing::Operand::result()});
  return testing::op_check(device, *test_device("reference"), op);
}

std::string narrow_difference(double (*wrong)(double)) {
  const testing::Operand exact = testing::Operand::random({400}, DType::fp32, 5, 1, 2);
  std::vector<double> off = exact.values;
  for (double& value : off) value = wrong(value);
  const auto rounded = [](const std::vector<double>& values) {
    return testing::Operand::given({400}, DType::bf16, values).values;
  };
  return testing::difference(rounded(off), rounded(exact.values), {}, DType::bf16);
}

TEST(Conformance, TellsOneRoundingFromTwo) {
  using ::testing::HasSubstr;
  EXPECT_EQ(narrow_difference([](double x) { return x * (1 + 1e-6); }), "");
  EXPECT_THAT(narrow_difference([](double x) { return x * (1 + 2e-3); }),
              HasSubstr("rounded more than once"));
  EXPECT_THAT(narrow_difference([](double x) { return x * (1 + 2e-2); }), HasSubstr("off by"));
}

TEST(Conformance, FindsADeviceThatIsWrong) {
  using ::testing::HasSubstr;
  EXPECT_THAT(check_wrong<inexact>(), HasSubstr("x: tensor 1: value "));
  EXPECT_THAT(check_wrong<writes_input>(), HasSubstr("tensor 0 is an input and was written"));
  EXPECT_THAT(check_wrong<writes_past_the_end>(), HasSubstr("memory beside tensor 1 was written"));
  EXPECT_THAT(check_wrong<forgets_the_last>(), HasSubstr("x: tensor 1: value 16 is nan"));
  EXPECT_THAT(check_wrong<differs_between_runs>(), HasSubstr("in a second run"));
  WrongDevice<inexact> device;
  const auto add = testing::op_case("y",
                                    AddArgs{},
                                    {testing::Operand::random({1}, DType::fp32, 1),
                                     testing::Operand::random({1}, DType::fp32, 2),
                                     testing::Operand::result()});
  EXPECT_EQ(testing::op_check(device, *test_device("reference"), add),
            "y: no operation \"add\" on wrong\n");
}

}  // namespace conformance_test
}  // namespace tessera

#include <algorithm>
#include <map>

#include "check.hpp"
#include "tessera/error.hpp"
#include "tessera/testing/core_op_cases.hpp"

namespace tessera::gpu_check {
namespace {

DType dtype_named(std::string_view name) {
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    if (dtype_name(dtype) == name) return dtype;
  }
  fail("--dtype \"{}\" is none of fp32, bf16, fp16", name);
}

struct Found {
  int cases = 0;
  std::string problems;
};

void check_dtype(const Target& target, Device& device, Device& reference, DType dtype) {
  const std::vector<std::string>& wanted = target.options().operations;
  std::map<std::string, Found> found;
  for (const testing::OpCase& op : testing::core_op_cases(dtype)) {
    const std::string operation(op.operation);
    if (!wanted.empty() && std::ranges::find(wanted, operation) == wanted.end()) continue;
    Found& one = found[operation];
    ++one.cases;
    one.problems += testing::op_check(device, reference, op);
  }
  require(wanted.empty() || found.size() == wanted.size(),
          "--operation: {} of the {} names are core operations",
          found.size(),
          wanted.size());
  for (const auto& [operation, one] : found) {
    const std::string name = operation + " " + std::string(dtype_name(dtype));
    print(checked(name, one.problems).add("cases", one.cases));
  }
}

}  // namespace

void operations(const Target& target) {
  const auto device = target.make();
  const auto reference = target.make("reference");
  std::vector<std::string> dtypes = target.options().dtypes;
  if (dtypes.empty()) dtypes = {"fp32", "bf16", "fp16"};
  for (const std::string& name : dtypes) {
    check_dtype(target, *device, *reference, dtype_named(name));
  }
}

}  // namespace tessera::gpu_check

#include <fmt/format.h>

#include "check.hpp"
#include "tessera/ops.hpp"
#include "tessera/random.hpp"
#include "tessera/testing/workbench.hpp"

namespace tessera::gpu_check {
namespace {

/// Rows of several samples, far apart, so that all words of the counter matter.
std::vector<double> row_ids(i64 rows) {
  std::vector<double> ids;
  for (i64 i = 0; i < rows; ++i) {
    ids.push_back(static_cast<double>(row_id((i % 7) * 100'003, i * 37)));
  }
  return ids;
}

struct Case {
  i64 rows, features;
  DType dtype;
  double p;
  bool residual;
};

std::vector<double> dropped(Device& device, const Case& one) {
  testing::Workbench bench(device);
  const Shape shape = {one.rows, one.features};
  const Tensor x = bench.random(shape, one.dtype, 11);
  const Tensor residual = one.residual ? bench.random(shape, one.dtype, 12) : Tensor();
  const Tensor ids = bench.tensor({one.rows}, DType::i64, row_ids(one.rows));
  const u64 key = random_key(1234, "layers.3/dropout");
  return testing::read(ops::dropout(bench.context(), x, residual, ids, one.p, key, 4096));
}

}  // namespace

void masks(const Target& target) {
  const auto device = target.make();
  const auto cpu = target.make("cpu");
  const i64 rows = target.options().quick ? 33 : 2049;
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    for (const double p : {0.1, 0.5}) {
      for (const bool residual : {false, true}) {
        const Case one = {rows, 777, dtype, p, residual};
        const std::vector<double> ours = dropped(*device, one), theirs = dropped(*cpu, one);
        i64 apart = 0;
        for (std::size_t i = 0; i < ours.size(); ++i) apart += ours[i] != theirs[i] ? 1 : 0;
        print(checked(
            fmt::format(
                "dropout {} p {}{}", dtype_name(dtype), p, residual ? " with residual" : ""),
            apart == 0 ? ""
                       : fmt::format("{} of {} values are not the CPU's", apart, ours.size())));
      }
    }
  }
}

}  // namespace tessera::gpu_check

#pragma once
#include <string>
#include <utility>
#include <vector>

#include "../op_check.hpp"
#include "tessera/device/core_ops.hpp"

namespace tessera::testing {

/// Collects cases of one dtype and numbers their random operands, so that no two are equal.
class Cases {
 public:
  Cases(DType dtype, std::vector<OpCase>& all) : dtype(dtype), all_(all) {}

  Operand random(const Shape& shape, double low = -1, double high = 1) {
    return Operand::random(shape, dtype, ++seed_, low, high);
  }
  Operand random(const Shape& shape, DType of, double low, double high) {
    return Operand::random(shape, of, ++seed_, low, high);
  }
  Operand integers(const Shape& shape, DType of, i64 low, i64 high) {
    return Operand::integers(shape, of, ++seed_, low, high);
  }
  /// Row ids of `n` rows of samples from 7 on, `positions` a sample.
  Operand rows(i64 n, i64 positions);
  /// The dtype of means, maxima and sums of exponentials.
  DType statistic() const { return dtype == DType::fp64 ? DType::fp64 : DType::fp32; }
  bool narrow() const { return dtype == DType::bf16 || dtype == DType::fp16; }
  /// The dtypes in which gradients of this dtype may be summed.
  std::vector<DType> accumulators() const {
    return narrow() ? std::vector{dtype, DType::fp32} : std::vector{dtype};
  }
  Operand scalar(double value) { return Operand::given({1}, DType::fp64, {value}); }

  /// Names read "matmul/3x17x33 bias". The tolerance is one of fp32 and is narrowed for fp64.
  template <OperationArgs Args>
  void add(const std::string& variant,
           const Args& constants,
           std::vector<Operand> operands,
           OpOptions options = {}) {
    if (dtype == DType::fp64) options.tolerance = {1e-12, 1e-14};
    all_.push_back(op_case(fmt::format("{}/{} {}", Args::kName, dtype_name(dtype), variant),
                           constants,
                           std::move(operands),
                           options));
  }

  const DType dtype;

 private:
  std::vector<OpCase>& all_;
  u64 seed_ = 1000;
};

void add_matmul_cases(Cases& cases);
void add_norm_cases(Cases& cases);
void add_elementwise_cases(Cases& cases);
void add_gelu_erf_cases(Cases& cases);
void add_tanh_cases(Cases& cases);
void add_embedding_cases(Cases& cases);
void add_rotary_cases(Cases& cases);
void add_attention_cases(Cases& cases);
void add_cross_entropy_cases(Cases& cases);
void add_router_cases(Cases& cases);
void add_moe_cases(Cases& cases);
void add_update_cases(Cases& cases);

}  // namespace tessera::testing

#include "core_op_cases.hpp"

#include "cases/cases.hpp"
#include "tessera/random.hpp"

namespace tessera::testing {

Operand Cases::rows(i64 n, i64 positions) {
  std::vector<double> values;
  for (i64 i = 0; i < n; ++i) {
    values.push_back(static_cast<double>(row_id(7 + i / positions, i % positions)));
  }
  return Operand::given({n}, DType::i64, std::move(values));
}

std::vector<OpCase> core_op_cases(DType dtype) {
  std::vector<OpCase> all;
  Cases cases(dtype, all);
  add_matmul_cases(cases);
  add_norm_cases(cases);
  add_elementwise_cases(cases);
  add_embedding_cases(cases);
  add_rotary_cases(cases);
  add_attention_cases(cases);
  add_cross_entropy_cases(cases);
  add_router_cases(cases);
  add_moe_cases(cases);
  add_update_cases(cases);
  // What was added later comes later: random operands are numbered, and those of others stay.
  add_gelu_erf_cases(cases);
  add_tanh_cases(cases);
  return all;
}

}  // namespace tessera::testing

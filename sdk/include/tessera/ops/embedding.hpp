#pragma once
#include <string_view>

#include "tessera/base/api.hpp"
#include "tessera/base/operation_rules.hpp"
#include "tessera/tensor.hpp"

namespace tessera {

/// out [n, h] = table[ids - first]; rows of ids outside [first, first + v) are zero, so that the
/// shards of a vocabulary-parallel table sum to the whole. ids i64 [n]; table [v, h], of which only
/// n rows are moved.
struct EmbeddingArgs {
  static constexpr std::string_view kName = "embedding";
  static constexpr int kTensors = 3, kOutputs = 1;
  static constexpr TensorRule kRules[] = {
      {"ids", TypeRule::integers}, {"table", TypeRule::data}, {"out", TypeRule::data}};
  TensorArg ids, table, out;
  i64 first = 0;
  TESSERA_API static Effort effort(const EmbeddingArgs& args);
  TESSERA_API static void infer(EmbeddingArgs& args);
};

/// table_grad[ids - first] += grad, row by row in order (bit-reproducible under any threads).
struct EmbeddingWeightArgs {
  static constexpr std::string_view kName = "embedding_weight";
  static constexpr int kTensors = 3, kOutputs = 1;
  static constexpr TensorRule kRules[] = {
      {"ids", TypeRule::integers}, {"grad", TypeRule::data}, {"table_grad", TypeRule::accumulator}};
  TensorArg ids, grad, table_grad;
  i64 first = 0;
  TESSERA_API static Effort effort(const EmbeddingWeightArgs& args);
  TESSERA_API static void infer(EmbeddingWeightArgs& args);
};

}  // namespace tessera

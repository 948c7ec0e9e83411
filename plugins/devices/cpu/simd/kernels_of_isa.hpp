#pragma once
#include "kernels.hpp"

// The kernels of the instruction set that this translation unit is compiled for; table.cpp lists
// them.
namespace tessera::cpu::TESSERA_ISA {

void column_sum(const ColumnSumArgs& args);
void add_bias(const AddBiasArgs& args);
void layernorm(const LayerNormArgs& args);
void layernorm_backward(const LayerNormBackwardArgs& args);
void layernorm_weight(const LayerNormWeightArgs& args);
void add(const AddArgs& args);
void multiply(const MultiplyArgs& args);
void scale(const ScaleArgs& args);
void gelu(const GeluArgs& args);
void gelu_backward(const GeluBackwardArgs& args);
void dropout(const DropoutArgs& args);
void embedding(const EmbeddingArgs& args);
void embedding_weight(const EmbeddingWeightArgs& args);
void cross_entropy_max(const CrossEntropyMaxArgs& args);
void cross_entropy_sums(const CrossEntropySumsArgs& args);
void cross_entropy_grad(const CrossEntropyGradArgs& args);
void adamw(const AdamWArgs& args);
void sgd(const SgdArgs& args);
void attention_merge(const AttentionMergeArgs& args);
i64 attention_workspace(const AttentionArgs& args);
void attention(const AttentionArgs& args, void* workspace);
i64 attention_backward_workspace(const AttentionBackwardArgs& args);
void attention_backward(const AttentionBackwardArgs& args, void* workspace);
i64 sum_squares_workspace(const SumSquaresArgs& args);
void sum_squares(const SumSquaresArgs& args, void* workspace);

}  // namespace tessera::cpu::TESSERA_ISA

#pragma once
#include "tessera/operation.hpp"
#include "tessera/ops/attention.hpp"
#include "tessera/ops/cross_entropy.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/embedding.hpp"
#include "tessera/ops/matmul.hpp"
#include "tessera/ops/norm.hpp"
#include "tessera/ops/update.hpp"

namespace tessera {

/// Handles to the operations that ops.hpp uses, resolved by name once per device. A device that
/// lacks one is an error only where it is launched.
struct CoreOps {
  explicit CoreOps(const Device& d)
      : matmul(d),
        column_sum(d),
        add_bias(d),
        layernorm(d),
        layernorm_backward(d),
        layernorm_weight(d),
        add(d),
        multiply(d),
        scale(d),
        gelu(d),
        gelu_backward(d),
        dropout(d),
        fill(d),
        copy(d),
        embedding(d),
        embedding_weight(d),
        attention(d),
        attention_merge(d),
        attention_backward(d),
        cross_entropy_max(d),
        cross_entropy_sums(d),
        cross_entropy_loss(d),
        cross_entropy_grad(d),
        reciprocal(d),
        sum_squares(d),
        step_scalars(d),
        adamw(d),
        sgd(d) {}

  Operation<MatmulArgs> matmul;
  Operation<ColumnSumArgs> column_sum;
  Operation<AddBiasArgs> add_bias;
  Operation<LayerNormArgs> layernorm;
  Operation<LayerNormBackwardArgs> layernorm_backward;
  Operation<LayerNormWeightArgs> layernorm_weight;
  Operation<AddArgs> add;
  Operation<MultiplyArgs> multiply;
  Operation<ScaleArgs> scale;
  Operation<GeluArgs> gelu;
  Operation<GeluBackwardArgs> gelu_backward;
  Operation<DropoutArgs> dropout;
  Operation<FillArgs> fill;
  Operation<CopyArgs> copy;
  Operation<EmbeddingArgs> embedding;
  Operation<EmbeddingWeightArgs> embedding_weight;
  Operation<AttentionArgs> attention;
  Operation<AttentionMergeArgs> attention_merge;
  Operation<AttentionBackwardArgs> attention_backward;
  Operation<CrossEntropyMaxArgs> cross_entropy_max;
  Operation<CrossEntropySumsArgs> cross_entropy_sums;
  Operation<CrossEntropyLossArgs> cross_entropy_loss;
  Operation<CrossEntropyGradArgs> cross_entropy_grad;
  Operation<ReciprocalArgs> reciprocal;
  Operation<SumSquaresArgs> sum_squares;
  Operation<StepScalarsArgs> step_scalars;
  Operation<AdamWArgs> adamw;
  Operation<SgdArgs> sgd;
};

}  // namespace tessera

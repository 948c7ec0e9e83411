#pragma once
#include "tessera/ops/attention.hpp"
#include "tessera/ops/cross_entropy.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/embedding.hpp"
#include "tessera/ops/matmul.hpp"
#include "tessera/ops/norm.hpp"
#include "tessera/ops/update.hpp"

namespace tessera::cpu {

/// The kernels that exist once for each instruction set. Plain function pointers: nothing of
/// simd/ may be an inline function that the linker could share between instruction sets.
struct Kernels {
  const char* isa;
  void (*column_sum)(const ColumnSumArgs&);
  void (*add_bias)(const AddBiasArgs&);
  void (*layernorm)(const LayerNormArgs&);
  void (*layernorm_backward)(const LayerNormBackwardArgs&);
  void (*layernorm_weight)(const LayerNormWeightArgs&);
  void (*add)(const AddArgs&);
  void (*multiply)(const MultiplyArgs&);
  void (*scale)(const ScaleArgs&);
  void (*gelu)(const GeluArgs&);
  void (*gelu_backward)(const GeluBackwardArgs&);
  void (*dropout)(const DropoutArgs&);
  void (*embedding)(const EmbeddingArgs&);
  void (*embedding_weight)(const EmbeddingWeightArgs&);
  void (*cross_entropy_max)(const CrossEntropyMaxArgs&);
  void (*cross_entropy_sums)(const CrossEntropySumsArgs&);
  void (*cross_entropy_grad)(const CrossEntropyGradArgs&);
  void (*adamw)(const AdamWArgs&);
  void (*sgd)(const SgdArgs&);
  void (*attention_merge)(const AttentionMergeArgs&);
  // With workspace: its size in bytes on the calling thread's number of threads, and the kernel.
  i64 (*attention_workspace)(const AttentionArgs&);
  void (*attention)(const AttentionArgs&, void* workspace);
  i64 (*attention_backward_workspace)(const AttentionBackwardArgs&);
  void (*attention_backward)(const AttentionBackwardArgs&, void* workspace);
  i64 (*sum_squares_workspace)(const SumSquaresArgs&);
  void (*sum_squares)(const SumSquaresArgs&, void* workspace);
};

namespace baseline {
extern const Kernels kKernels;
}
namespace avx2 {
extern const Kernels kKernels;
}
namespace avx512 {
extern const Kernels kKernels;
}

}  // namespace tessera::cpu

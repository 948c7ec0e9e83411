#pragma once
#include "runtime.hpp"
#include "tessera/ops/attention.hpp"

namespace tessera::cuda::attention {

/// Attention of fp16 and bf16, on tensor cores.
void run_on_tensor_cores(const AttentionArgs& args, cudaStream_t stream);
/// deltas: the workspace.
void run_on_tensor_cores(const AttentionBackwardArgs& args, float* deltas, cudaStream_t stream);

}  // namespace tessera::cuda::attention

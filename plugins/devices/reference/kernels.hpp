#pragma once
#include <vector>

#include "tessera/operation.hpp"

namespace tessera::reference {

// Every kernel reads its inputs as double, computes in double, sums in a fixed order and rounds
// once, when it stores. Threads share independent results only, so their number never shows.

void add_matmul_kernels(std::vector<Kernel>& kernels);
void add_norm_kernels(std::vector<Kernel>& kernels);
void add_elementwise_kernels(std::vector<Kernel>& kernels);
void add_dropout_kernels(std::vector<Kernel>& kernels);
void add_copy_kernels(std::vector<Kernel>& kernels);
void add_embedding_kernels(std::vector<Kernel>& kernels);
void add_attention_kernels(std::vector<Kernel>& kernels);
void add_attention_merge_kernels(std::vector<Kernel>& kernels);
void add_attention_backward_kernels(std::vector<Kernel>& kernels);
void add_cross_entropy_kernels(std::vector<Kernel>& kernels);
void add_update_kernels(std::vector<Kernel>& kernels);

}  // namespace tessera::reference

#include "simd/kernels_of_isa.hpp"

#define TESSERA_TEXT(x) TESSERA_TEXT_(x)
#define TESSERA_TEXT_(x) #x

namespace tessera::cpu::TESSERA_ISA {

extern const Kernels kKernels = {
    .isa = TESSERA_TEXT(TESSERA_ISA),
    .column_sum = &column_sum,
    .add_bias = &add_bias,
    .layernorm = &layernorm,
    .layernorm_backward = &layernorm_backward,
    .layernorm_weight = &layernorm_weight,
    .add = &add,
    .multiply = &multiply,
    .scale = &scale,
    .gelu = &gelu,
    .gelu_backward = &gelu_backward,
    .dropout = &dropout,
    .embedding = &embedding,
    .embedding_weight = &embedding_weight,
    .cross_entropy_max = &cross_entropy_max,
    .cross_entropy_sums = &cross_entropy_sums,
    .cross_entropy_grad = &cross_entropy_grad,
    .adamw = &adamw,
    .sgd = &sgd,
    .attention_merge = &attention_merge,
    .attention_workspace = &attention_workspace,
    .attention = &attention,
    .attention_backward_workspace = &attention_backward_workspace,
    .attention_backward = &attention_backward,
    .sum_squares_workspace = &sum_squares_workspace,
    .sum_squares = &sum_squares,
};

}  // namespace tessera::cpu::TESSERA_ISA

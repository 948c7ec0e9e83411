#include "registration.hpp"

#include <algorithm>
#include <initializer_list>

namespace tessera::cpu {
namespace {

template <OperationArgs Args>
Kernel plain(void (*run)(const Args&), std::initializer_list<int> doubles = {}) {
  return make_kernel<Args>(
      [doubles = std::vector<int>(doubles)](const Args& args) {
        check_types(args, doubles);
        return Setup{};
      },
      [run](const Args& args, void*, Stream&) { run(args); });
}

template <OperationArgs Args>
Kernel with_workspace(i64 (*bytes)(const Args&),
                      void (*run)(const Args&, void*),
                      std::initializer_list<int> doubles = {}) {
  return make_kernel<Args>(
      [bytes, doubles = std::vector<int>(doubles)](const Args& args) {
        check_types(args, doubles);
        return Setup{.workspace_bytes = bytes(args)};
      },
      [run](const Args& args, void* workspace, Stream&) { run(args, workspace); });
}

}  // namespace

void check_types(std::string_view operation,
                 const TensorArg* tensors,
                 int count,
                 const std::vector<int>& doubles) {
  for (int i = 0; i < count; ++i) {
    if (!tensors[i] || !is_floating(tensors[i].dtype)) continue;
    const bool is_double = std::find(doubles.begin(), doubles.end(), i) != doubles.end();
    const DType expected = is_double ? DType::f64 : DType::f32;
    require(tensors[i].dtype == expected,
            "{} on the device \"cpu\" takes {} for its tensor {}, not {}; the device "
            "\"reference\" has every dtype",
            operation,
            dtype_name(expected),
            i,
            dtype_name(tensors[i].dtype));
  }
}

std::vector<Kernel> make_kernels(const Kernels& table) {
  std::vector<Kernel> kernels = {
      plain(table.column_sum),
      plain(table.add_bias),
      plain(table.layernorm),
      plain(table.layernorm_backward),
      plain(table.layernorm_weight),
      plain(table.multiply),
      plain(table.scale),
      plain(table.gelu),
      plain(table.gelu_backward),
      plain(table.dropout),
      plain(table.embedding),
      plain(table.embedding_weight),
      plain(table.cross_entropy_max),
      plain(table.cross_entropy_sums),
      plain(table.cross_entropy_grad, {5, 6}),  // inverse_weight, grad
      plain(table.adamw, {0}),                  // scalars
      plain(table.sgd, {0}),
      plain(table.attention_merge),
      with_workspace(table.attention_workspace, table.attention),
      with_workspace(table.attention_backward_workspace, table.attention_backward),
      with_workspace(table.sum_squares_workspace, table.sum_squares, {1}),  // out
  };
  add_copy_kernels(kernels);
  add_matmul_kernels(kernels);
  add_scalar_kernels(kernels, table);
  return kernels;
}

}  // namespace tessera::cpu

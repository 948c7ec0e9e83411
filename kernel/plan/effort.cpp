#include "kernel/plan/effort.hpp"

#include <algorithm>

#include "tessera/ops/attention.hpp"
#include "tessera/ops/embedding.hpp"
#include "tessera/ops/matmul.hpp"

namespace tessera {

namespace {

double product_flops(const MatmulArgs& args) {
  const i64 inner = args.a.shape[args.transpose_a ? 0 : 1];
  return 2.0 * static_cast<double>(args.out.elements()) * static_cast<double>(inner);
}

// Area of { 0 <= x < queries, 0 <= y < keys, y <= x + offset }.
double visible(double queries, double keys, double offset) {
  const auto below = [keys](double x) {  // integral of min(max(t, 0), keys) up to x
    return x <= 0 ? 0 : x <= keys ? x * x / 2 : keys * keys / 2 + keys * (x - keys);
  };
  return below(offset + queries) - below(offset);
}

double attention_flops(const TensorArg& q,
                       const TensorArg& k,
                       const AttentionSpec& spec,
                       int products) {
  const auto queries = static_cast<double>(q.shape[1]), keys = static_cast<double>(k.shape[1]);
  const double area = spec.causal ? visible(queries, keys, static_cast<double>(spec.causal_offset))
                                  : queries * keys;
  const i64 width = q.shape[0] * q.shape[2] * q.shape[3];  // samples × heads × features
  return 2.0 * products * static_cast<double>(width) * area;
}

double flops_of(const Kernel& kernel, const void* args) {
  if (kernel.operation == MatmulArgs::kName) {
    return product_flops(*static_cast<const MatmulArgs*>(args));
  }
  if (kernel.operation == AttentionArgs::kName) {
    const auto& a = *static_cast<const AttentionArgs*>(args);
    return attention_flops(a.q, a.k, a.spec, 2);
  }
  if (kernel.operation == AttentionBackwardArgs::kName) {
    const auto& a = *static_cast<const AttentionBackwardArgs*>(args);
    return attention_flops(a.q, a.k, a.spec, 4);
  }
  return 0;
}

// Of a table that is looked up only as many rows move as are asked for.
template <class F>
void for_each_moved(const Kernel& kernel, const void* args, F&& f) {
  if (kernel.operation == EmbeddingArgs::kName) {
    const auto& a = *static_cast<const EmbeddingArgs*>(args);
    for (const TensorArg* tensor : {&a.ids, &a.out, &a.out}) f(*tensor);
  } else if (kernel.operation == EmbeddingWeightArgs::kName) {
    const auto& a = *static_cast<const EmbeddingWeightArgs*>(args);
    for (const TensorArg* tensor : {&a.ids, &a.grad, &a.grad}) f(*tensor);
  } else {
    const auto* tensors = static_cast<const TensorArg*>(args);
    std::for_each(tensors, tensors + kernel.tensors, f);
  }
}

}  // namespace

Effort effort_of(const Kernel& kernel, const void* args, const Hardware& hardware) {
  Effort effort;
  effort.flops = flops_of(kernel, args);
  effort.dtype = static_cast<const TensorArg*>(args)->dtype;
  for_each_moved(kernel, args, [&](const TensorArg& tensor) {
    if (!tensor) return;
    const i64 bytes = tensor.elements() * dtype_size(tensor.dtype);
    effort.bytes += static_cast<double>(bytes);
    effort.timed_bytes += hardware.timed_bytes(tensor.dtype, bytes);
  });
  return effort;
}

double seconds_of(const Effort& effort, const Hardware& hardware) {
  const double moving =
      effort.timed_bytes / (hardware.memory.bandwidth * hardware.memory.efficiency);
  const double working = effort.flops > 0 ? effort.flops / hardware.rate(effort.dtype) : 0;
  return hardware.launch_latency + std::max(moving, working);
}

}  // namespace tessera

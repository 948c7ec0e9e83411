#pragma once
#include <array>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/base/sequence_cache.hpp"
#include "tessera/context.hpp"
#include "tessera/device/core_ops.hpp"
#include "tessera/parameter.hpp"

/// Differentiable operations on tensors. Each checks shapes and dtypes (Error with both), allocates
/// its results from cx.pool, launches on cx.stream and, when recording, puts its two gradient
/// halves on the tape. Rows: activations are [n, features] with n = samples × positions,
/// sample-major.
namespace tessera::ops {

/// Completes `args` (shapes of outputs by infer), allocates the outputs that have no address, and
/// launches: the way in which a plugin runs an operation of its own. Returns the outputs in order;
/// a tensor that already had an address is not among them (undefined handle). `args` may be a
/// temporary: `run(cx, square_, SquareArgs{x.arg(), {}})[0]`.
template <OperationArgs Args>
std::array<Tensor, Args::kOutputs> run(Context& cx, const Operation<Args>& operation, Args& args) {
  Args::infer(args);
  std::array<Tensor, Args::kOutputs> made;
  auto* tensors = reinterpret_cast<TensorArg*>(&args);
  for (int i = 0; i < Args::kOutputs; ++i) {
    TensorArg& out = tensors[Args::kTensors - Args::kOutputs + i];
    if (out.address != nullptr || out.rank == 0) continue;
    Shape shape;
    for (int d = 0; d < out.rank; ++d) shape.push_back(out.shape[d]);
    made[static_cast<std::size_t>(i)] = cx.empty(shape, out.dtype);
    out = made[static_cast<std::size_t>(i)].arg();
  }
  operation.launch(*cx.stream, *cx.pool, args);
  return made;
}

template <OperationArgs Args>
std::array<Tensor, Args::kOutputs> run(Context& cx, const Operation<Args>& operation, Args&& args) {
  return run(cx, operation, args);
}

/// The same for a core operation, which its arguments name: `run(cx, AddArgs{…})`.
template <OperationArgs Args>
std::array<Tensor, Args::kOutputs> run(Context& cx, Args& args) {
  return run(cx, cx.ops->of<Args>(), args);
}
template <OperationArgs Args>
std::array<Tensor, Args::kOutputs> run(Context& cx, Args&& args) {
  return run(cx, args);
}

/// y [n, out] = x [n, in] · weightᵀ + bias; weight [out, in], bias [out] or nullptr.
TESSERA_API Tensor linear(Context& cx, const Tensor& x, Parameter& weight, Parameter* bias);
/// x [n, f] + bias [f]; in place when x was moved in and is the only handle.
TESSERA_API Tensor add_bias(Context& cx, Tensor x, Parameter& bias);
TESSERA_API Tensor
layernorm(Context& cx, const Tensor& x, Parameter& weight, Parameter& bias, double eps);
/// x / sqrt(mean of x² + eps) · weight, of each row.
TESSERA_API Tensor rmsnorm(Context& cx, const Tensor& x, Parameter& weight, double eps);
TESSERA_API Tensor gelu(Context& cx, const Tensor& x);      ///< the tanh form
TESSERA_API Tensor gelu_erf(Context& cx, const Tensor& x);  ///< x · Φ(x)
TESSERA_API Tensor tanh(Context& cx, const Tensor& x);
TESSERA_API Tensor add(Context& cx, const Tensor& a, const Tensor& b);
TESSERA_API Tensor multiply(Context& cx, const Tensor& a, const Tensor& b);
TESSERA_API Tensor scale(Context& cx, const Tensor& x, double factor);
/// residual + dropout(x); residual may be undefined. `row_ids` i64 [n]. With p = 0 or in evaluation
/// nothing is dropped. feature_offset: global index of x's first feature on this rank.
TESSERA_API Tensor dropout(Context& cx,
                           const Tensor& x,
                           const Tensor& residual,
                           const Tensor& row_ids,
                           double p,
                           u64 key,
                           i64 feature_offset = 0);
/// Rows of a table; ids outside [first, first + rows of the table) give zero.
TESSERA_API Tensor embedding(Context& cx, const Tensor& ids, Parameter& table, i64 first = 0);

struct RotaryShape {
  i64 heads = 0, head_dim = 0;  ///< that turn
  bool interleaved = false;     ///< as RotaryArgs
};
/// x [n, features], of whose features the first heads · head_dim are heads that turn by their rows'
/// positions i64 [n], and the others stay; in place when x was moved in and is the only handle.
/// table: as RotaryArgs.
TESSERA_API Tensor rotary(
    Context& cx, Tensor x, const Tensor& positions, const Tensor& table, const RotaryShape& shape);

struct AttentionShape {
  i64 batch = 0, sequence = 0;
  i64 heads = 0, kv_heads = 0;  ///< on this rank
  i64 head_dim = 0;             ///< features of a query and a key
  i64 value_dim = 0;            ///< features of a value; 0: head_dim

  i64 value_size() const { return value_dim > 0 ? value_dim : head_dim; }
  i64 query_features() const { return heads * head_dim; }
  i64 key_features() const { return kv_heads * head_dim; }
  i64 value_features() const { return kv_heads * value_size(); }
  /// Of a row of packed projections: sections q, k, v.
  i64 features() const { return query_features() + key_features() + value_features(); }
  i64 result_features() const { return heads * value_size(); }
};
/// The first and the last key that each query may see, positions in the sample, i32 [b·s]; each may
/// be undefined (`visible_keys`).
struct AttentionLimits {
  Tensor first, last;
};
/// Self-attention over packed projections: qkv [b·s, shape.features()], sections q, k, v; result
/// [b·s, shape.result_features()].
TESSERA_API Tensor attention(Context& cx,
                             const Tensor& qkv,
                             const Tensor& row_ids,
                             const AttentionShape& shape,
                             const AttentionSpec& spec,
                             const AttentionLimits& limits = {});
/// The same for the rows of a run over cx.cache: queries [n, shape.query_features()] attend to what
/// is kept of their sequences, their own rows included: `kept` [sequences, longest, sections k, v],
/// unit inner stride (SequenceCache::extend). Batch and sequence are those of the cache's run.
/// Records nothing; not for causal = false, whose earlier rows would have to see the new ones.
TESSERA_API Tensor cached_attention(Context& cx,
                                    const Tensor& queries,
                                    const Tensor& kept,
                                    const Tensor& row_ids,
                                    AttentionShape shape,
                                    const AttentionSpec& spec);

/// Mean cross entropy of logits [n, v], cut over `group` along v, against targets i64 [n] where
/// mask u8 [n] is 1: fp64 [1] = sum · inverse_weight. Two reductions of n and 2n scalars.
/// Overwrites logits with their gradient in the backward pass when nothing else holds them.
TESSERA_API Tensor cross_entropy(Context& cx,
                                 const Tensor& logits,
                                 const Tensor& targets,
                                 const Tensor& mask,
                                 const Tensor& inverse_weight,
                                 i64 first,
                                 i64 valid,
                                 ProcessGroup& group,
                                 std::string_view name);

/// cx.add_loss(term, factor · cross_entropy(…)). The gradient of what is added to the loss is known
/// in the forward pass, so where `group` is one rank the logits are read once, and overwritten
/// there when they were moved in and this is the only handle. `accuracy`, where it is one (of
/// MetricReduce::sum), gets the share of rows whose target has the largest logit, a mean as the
/// loss is.
TESSERA_API void add_cross_entropy(Context& cx,
                                   LossTerm term,
                                   Tensor logits,
                                   const Tensor& targets,
                                   const Tensor& mask,
                                   i64 first,
                                   i64 valid,
                                   ProcessGroup& group,
                                   std::string_view name,
                                   double factor = 1,
                                   Metric accuracy = {});

/// The same of logits [n, v] that every rank has whole: nothing is communicated. `factor` is 0
/// where another rank's loss is the one that counts.
TESSERA_API void add_cross_entropy(Context& cx,
                                   LossTerm term,
                                   Tensor logits,
                                   const Tensor& targets,
                                   const Tensor& mask,
                                   double factor = 1,
                                   Metric accuracy = {});

/// The same values under another shape, tracked.
TESSERA_API Tensor reshape(Context& cx, const Tensor& x, const Shape& shape);
/// Rows [n, sum of widths] as dense matrices of these widths, side by side, tracked; and back.
TESSERA_API std::vector<Tensor> split(Context& cx, const Tensor& x, const std::vector<i64>& widths);
TESSERA_API Tensor join(Context& cx, const std::vector<Tensor>& parts);
/// Elements [begin, begin + length) along dim, as a dense copy, tracked.
TESSERA_API Tensor slice(Context& cx, const Tensor& x, int dim, i64 begin, i64 length);

/// Runs `body` without keeping what its backward needs, and runs it again in the backward pass
/// (Chen et al. 2016). `body` must be a pure function of its inputs, parameters and device scalars.
using RecomputeBody = std::function<std::vector<Tensor>(Context&, const std::vector<Tensor>&)>;
TESSERA_API std::vector<Tensor> recompute(Context& cx,
                                          const std::vector<Tensor>& inputs,
                                          RecomputeBody body);

}  // namespace tessera::ops

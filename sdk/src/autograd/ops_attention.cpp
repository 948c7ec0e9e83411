#include <algorithm>
#include <array>

#include "tessera/ops.hpp"

namespace tessera::ops {

namespace {

// Section `offset` … of packed rows [b·s, features] as [b, s, heads, d].
TensorArg heads_of(const Tensor& packed, const AttentionShape& shape, i64 offset, i64 heads) {
  TensorArg view = packed.arg();
  const i64 row = view.strides[0];
  view.address = static_cast<char*>(view.address) + offset * dtype_size(view.dtype);
  view.rank = 4;
  const i64 sizes[] = {shape.batch, shape.sequence, heads, shape.head_dim};
  const i64 strides[] = {shape.sequence * row, row, shape.head_dim, 1};
  for (int i = 0; i < 4; ++i) {
    view.shape[i] = sizes[i];
    view.strides[i] = strides[i];
  }
  return view;
}

void require_projections(const Tensor& qkv, const AttentionShape& shape) {
  const i64 n = shape.batch * shape.sequence;
  const i64 features = (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
  require(qkv.rank() == 2 && qkv.dim(0) == n && qkv.dim(1) == features,
          "attention over {} samples × {} positions with {} + 2·{} heads of {} got projections {}",
          shape.batch,
          shape.sequence,
          shape.heads,
          shape.kv_heads,
          shape.head_dim,
          qkv);
}

}  // namespace

Tensor cached_attention(Context& cx,
                        const Tensor& qkv,
                        const Tensor& row_ids,
                        const AttentionShape& shape,
                        const AttentionSpec& spec,
                        CacheSlot slot) {
  require_projections(qkv, shape);
  require(cx.cache != nullptr && !cx.recording() && spec.causal && shape.batch == 1,
          "cached attention is for one causal sample that is not recorded");
  const i64 q_features = shape.heads * shape.head_dim;
  const i64 kv_features = shape.kv_heads * shape.head_dim;
  const i64 before = cx.cache->length();
  const Tensor keys = cx.cache->extend(cx, slot, qkv.slice(1, q_features, 2 * kv_features));
  AttentionShape all = shape;
  all.sequence = keys.dim(0);
  Tensor out = cx.empty({shape.sequence, q_features}, qkv.dtype());
  AttentionArgs args;
  args.q = heads_of(qkv, shape, 0, shape.heads);
  args.k = heads_of(keys, all, 0, shape.kv_heads);
  args.v = heads_of(keys, all, kv_features, shape.kv_heads);
  args.row_ids = row_ids.arg();
  args.out = heads_of(out, shape, 0, shape.heads);
  args.spec = spec;
  args.spec.dropout = 0;
  args.spec.causal_offset = before;
  run(cx, args);
  return out;
}

Tensor attention(Context& cx,
                 const Tensor& qkv,
                 const Tensor& row_ids,
                 const AttentionShape& shape,
                 const AttentionSpec& given) {
  require_projections(qkv, shape);
  const i64 q_features = shape.heads * shape.head_dim;
  const i64 kv_features = shape.kv_heads * shape.head_dim;
  const i64 n = shape.batch * shape.sequence;
  AttentionSpec spec = given;
  if (!cx.training()) spec.dropout = 0;
  Tensor out = cx.empty({n, q_features}, qkv.dtype());
  AttentionArgs args;
  args.q = heads_of(qkv, shape, 0, shape.heads);
  args.k = heads_of(qkv, shape, q_features, shape.kv_heads);
  args.v = heads_of(qkv, shape, q_features + kv_features, shape.kv_heads);
  args.row_ids = row_ids.arg();
  args.out = heads_of(out, shape, 0, shape.heads);
  args.spec = spec;
  if (cx.seen > 0 && !spec.causal) {
    require(!cx.recording(), "attention to padding is not recorded");
    args.k.shape[1] = args.v.shape[1] = std::min(cx.seen, shape.sequence);
  }
  const Tensor lse = run(cx, args)[1];
  if (!cx.recording()) return out;

  const auto input_half = [qkv = qkv.with_var({}),
                           row_ids = row_ids.with_var({}),
                           out,
                           lse,
                           args,
                           shape,
                           q_features,
                           kv_features](Context& c, Gradients& g) {
    const Tensor gradient = g.output(0);
    Tensor qkv_grad = c.empty(qkv.shape(), qkv.dtype());
    AttentionBackwardArgs back;
    back.q = args.q;
    back.k = args.k;
    back.v = args.v;
    back.row_ids = args.row_ids;
    back.out = args.out;
    back.lse = lse.arg();
    back.grad = heads_of(gradient, shape, 0, shape.heads);
    back.q_grad = heads_of(qkv_grad, shape, 0, shape.heads);
    back.k_grad = heads_of(qkv_grad, shape, q_features, shape.kv_heads);
    back.v_grad = heads_of(qkv_grad, shape, q_features + kv_features, shape.kv_heads);
    back.spec = args.spec;
    run(c, back);
    g.input(0, std::move(qkv_grad));
  };
  cx.tape->record("attention", std::array{qkv}, std::array{&out}, input_half);
  return out;
}

}  // namespace tessera::ops

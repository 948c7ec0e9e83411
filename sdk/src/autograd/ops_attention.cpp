#include <algorithm>
#include <array>

#include "tessera/ops.hpp"

namespace tessera::ops {

namespace {

// Section `offset` … of rows [b·s, features] as [b, s, heads, d].
TensorArg heads_of(
    const Tensor& packed, i64 batch, i64 sequence, i64 offset, i64 heads, i64 features) {
  TensorArg view = packed.arg();
  const i64 row = view.strides[view.rank - 2];
  const i64 sample = view.rank == 3 ? view.strides[0] : sequence * row;
  view.address = static_cast<char*>(view.address) + offset * dtype_size(view.dtype);
  view.rank = 4;
  const i64 sizes[] = {batch, sequence, heads, features};
  const i64 strides[] = {sample, row, features, 1};
  for (int i = 0; i < 4; ++i) {
    view.shape[i] = sizes[i];
    view.strides[i] = strides[i];
  }
  return view;
}

/// Where sections lie in packed projections, or in their gradients.
struct Sections {
  const Tensor& packed;
  const AttentionShape& shape;
  TensorArg q() const { return heads_of(packed, shape.batch, shape.sequence, 0, shape.heads, d()); }
  TensorArg k() const {
    return heads_of(
        packed, shape.batch, shape.sequence, shape.query_features(), shape.kv_heads, d());
  }
  TensorArg v() const {
    return heads_of(packed,
                    shape.batch,
                    shape.sequence,
                    shape.query_features() + shape.key_features(),
                    shape.kv_heads,
                    shape.value_size());
  }

 private:
  i64 d() const { return shape.head_dim; }
};

TensorArg results_of(const Tensor& out, const AttentionShape& shape) {
  return heads_of(out, shape.batch, shape.sequence, 0, shape.heads, shape.value_size());
}

TensorArg limit_of(const Tensor& limit, const AttentionShape& shape) {
  return limit.defined() ? limit.view({shape.batch, shape.sequence}).arg() : TensorArg{};
}

void require_projections(const Tensor& qkv, const AttentionShape& shape) {
  const i64 n = shape.batch * shape.sequence;
  require(qkv.rank() == 2 && qkv.dim(0) == n && qkv.dim(1) == shape.features(),
          "attention over {} samples × {} positions with {} + {} heads of {} and {} values of {} "
          "got projections {}",
          shape.batch,
          shape.sequence,
          shape.heads,
          shape.kv_heads,
          shape.head_dim,
          shape.kv_heads,
          shape.value_size(),
          qkv);
}

}  // namespace

Tensor cached_attention(Context& cx,
                        const Tensor& queries,
                        const Tensor& kept,
                        const Tensor& row_ids,
                        AttentionShape shape,
                        const AttentionSpec& spec) {
  require(cx.cache != nullptr && !cx.recording() && spec.causal,
          "cached attention is for causal sequences that are not recorded");
  shape.batch = cx.cache->run().sequences;
  shape.sequence = cx.cache->run().rows;
  const i64 longest = kept.dim(1);
  Tensor out = cx.empty({queries.dim(0), shape.result_features()}, queries.dtype());
  AttentionArgs args;
  args.q = heads_of(queries, shape.batch, shape.sequence, 0, shape.heads, shape.head_dim);
  args.k = heads_of(kept, shape.batch, longest, 0, shape.kv_heads, shape.head_dim);
  args.v = heads_of(
      kept, shape.batch, longest, shape.key_features(), shape.kv_heads, shape.value_size());
  args.row_ids = row_ids.arg();
  args.out = results_of(out, shape);
  args.spec = spec;
  args.spec.dropout = 0;
  if (shape.batch == 1) {
    args.spec.causal_offset = longest - shape.sequence;
  } else {
    args.spec.causal = false;
    args.last = limit_of(cx.cache->positions(), shape);
  }
  run(cx, args);
  return out;
}

Tensor attention(Context& cx,
                 const Tensor& qkv,
                 const Tensor& row_ids,
                 const AttentionShape& shape,
                 const AttentionSpec& given,
                 const AttentionLimits& limits) {
  require_projections(qkv, shape);
  AttentionSpec spec = given;
  if (!cx.training()) spec.dropout = 0;
  Tensor out = cx.empty({qkv.dim(0), shape.result_features()}, qkv.dtype());
  const Sections sections{qkv, shape};
  AttentionArgs args;
  args.q = sections.q();
  args.k = sections.k();
  args.v = sections.v();
  args.row_ids = row_ids.arg();
  args.first = limit_of(limits.first, shape);
  args.last = limit_of(limits.last, shape);
  args.out = results_of(out, shape);
  args.spec = spec;
  if (cx.seen > 0 && !spec.causal) {
    require(!cx.recording(), "attention to padding is not recorded");
    args.k.shape[1] = args.v.shape[1] = std::min(cx.seen, shape.sequence);
  }
  const Tensor lse = run(cx, args)[1];
  if (!cx.recording()) return out;

  const auto input_half =
      [qkv = qkv.with_var({}), row_ids = row_ids.with_var({}), limits, out, lse, args, shape](
          Context& c, Gradients& g) {
        const Tensor gradient = g.output(0);
        Tensor qkv_grad = c.empty(qkv.shape(), qkv.dtype());
        const Sections gradients{qkv_grad, shape};
        AttentionBackwardArgs back;
        back.q = args.q;
        back.k = args.k;
        back.v = args.v;
        back.row_ids = args.row_ids;
        back.first = args.first;
        back.last = args.last;
        back.out = args.out;
        back.lse = lse.arg();
        back.grad = results_of(gradient, shape);
        back.q_grad = gradients.q();
        back.k_grad = gradients.k();
        back.v_grad = gradients.v();
        back.spec = args.spec;
        run(c, back);
        g.input(0, std::move(qkv_grad));
      };
  cx.tape->record("attention", std::array{qkv}, std::array{&out}, input_half);
  return out;
}

}  // namespace tessera::ops

#include "latent_heads.hpp"

#include <array>

#include "packed.hpp"

namespace tessera {
namespace {

/// `size` features of each head in rows [n, …], from `offset` on, heads `apart` from each other.
TensorArg part(const Tensor& rows, i64 offset, i64 heads, i64 apart, i64 size) {
  return strided(rows, offset, {{rows.dim(0), rows.strides()[0]}, {heads, apart}, {size, 1}});
}

/// Calls move(of the projection, the same in packed rows) for all features of queries, which begin
/// at 0 there.
template <class Move>
void for_queries(const LatentHeads& h, const Tensor& q, const Tensor& packed, Move&& move) {
  const i64 size = h.head_size();
  move(part(q, 0, h.heads, size, h.fixed), part(packed, h.rotary, h.heads, size, h.fixed));
  move(part(q, h.fixed, h.heads, size, h.rotary), part(packed, 0, h.heads, size, h.rotary));
}

/// The same for those of keys and values that are not shared; keys begin at `keys`.
template <class Move>
void for_keys(const LatentHeads& h, const Tensor& kv, const Tensor& packed, i64 keys, Move&& move) {
  const i64 size = h.head_size(), apart = h.fixed + h.value, values = keys + h.heads * size;
  move(part(kv, 0, h.heads, apart, h.fixed), part(packed, keys + h.rotary, h.heads, size, h.fixed));
  move(part(kv, h.fixed, h.heads, apart, h.value), part(packed, values, h.heads, h.value, h.value));
}

/// The key's shared features of one head.
TensorArg shared_of(const LatentHeads& h, const Tensor& packed, i64 keys, i64 head) {
  return strided(
      packed, keys + head * h.head_size(), {{packed.dim(0), packed.strides()[0]}, {h.rotary, 1}});
}

void put_keys(Context& cx,
              const LatentHeads& h,
              const Tensor& kv,
              const Tensor& shared,
              const Tensor& packed,
              i64 keys) {
  for_keys(
      h, kv, packed, keys, [&](const TensorArg& of, const TensorArg& at) { copy(cx, of, at); });
  for (i64 head = 0; head < h.heads; ++head) {
    copy(cx, shared.arg(), shared_of(h, packed, keys, head));
  }
}

Tensor sum_of_shared(Context& cx, const LatentHeads& h, const Tensor& packed, i64 keys) {
  const DType narrow = packed.dtype();
  const DType wide = dtype_size(narrow) < dtype_size(DType::fp32) ? DType::fp32 : narrow;
  const Tensor sum = cx.empty({packed.dim(0), h.rotary}, wide), next = cx.empty(sum.shape(), wide);
  for (i64 head = 0; head < h.heads; ++head) {
    copy(cx, shared_of(h, packed, keys, head), (head == 0 ? sum : next).arg());
    if (head > 0) ops::run(cx, AddArgs{sum.arg(), next.arg(), sum.arg()});
  }
  return converted(cx, sum, narrow);
}

}  // namespace

Tensor pack_latent_queries(Context& cx, const LatentHeads& h, const Tensor& q) {
  Tensor packed = cx.empty({q.dim(0), h.query_features()}, q.dtype());
  for_queries(h, q, packed, [&](const TensorArg& of, const TensorArg& at) { copy(cx, of, at); });
  return packed;
}

Tensor pack_latent_keys(Context& cx, const LatentHeads& h, const Tensor& kv, const Tensor& shared) {
  Tensor packed = cx.empty({kv.dim(0), h.kept_features()}, kv.dtype());
  put_keys(cx, h, kv, shared, packed, 0);
  return packed;
}

Tensor pack_latent_heads(
    Context& cx, const LatentHeads& h, const Tensor& q, const Tensor& kv, const Tensor& shared) {
  const i64 keys = h.query_features();
  Tensor packed = cx.empty({q.dim(0), keys + h.kept_features()}, q.dtype());
  for_queries(h, q, packed, [&](const TensorArg& of, const TensorArg& at) { copy(cx, of, at); });
  put_keys(cx, h, kv, shared, packed, keys);
  if (!cx.recording()) return packed;
  cx.tape->record("pack_latent_heads",
                  std::array{q, kv, shared},
                  std::array{&packed},
                  [h, keys, kv_features = kv.dim(1)](Context& c, Gradients& g) {
                    const Tensor gradient = g.output(0);
                    const auto back = [&](const TensorArg& of, const TensorArg& at) {
                      copy(c, at, of);
                    };
                    Tensor q_grad = c.empty({gradient.dim(0), keys}, gradient.dtype());
                    Tensor kv_grad = c.empty({gradient.dim(0), kv_features}, gradient.dtype());
                    for_queries(h, q_grad, gradient, back);
                    for_keys(h, kv_grad, gradient, keys, back);
                    g.input(0, std::move(q_grad));
                    g.input(1, std::move(kv_grad));
                    g.input(2, sum_of_shared(c, h, gradient, keys));
                  });
  return packed;
}

}  // namespace tessera

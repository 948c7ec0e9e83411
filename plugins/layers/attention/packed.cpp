#include "packed.hpp"

#include "tessera/zigzag.hpp"

namespace tessera {

TensorArg strided(const Tensor& tensor, i64 offset, std::initializer_list<Extent> extents) {
  TensorArg view = tensor.arg();
  view.address = static_cast<char*>(view.address) + offset * dtype_size(view.dtype);
  view.rank = 0;
  for (const Extent& extent : extents) {
    view.shape[view.rank] = extent.size;
    view.strides[view.rank] = extent.stride;
    ++view.rank;
  }
  return view;
}

void copy(Context& cx, const TensorArg& from, const TensorArg& to) {
  ops::run(cx, CopyArgs{from, to});
}

Tensor converted(Context& cx, const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  Tensor y = cx.empty(x.shape(), dtype);
  copy(cx, x.arg(), y.arg());
  return y;
}

PackedLayout::PackedLayout(const ops::AttentionShape& shape, i64 ranks)
    : shape_(shape), ranks_(ranks), chunk_(shape.sequence / zigzag::kHalves) {}

TensorArg PackedLayout::half_of(const Tensor& tensor, int half, i64 heads, i64 features) const {
  const i64 row = tensor.strides()[0];
  return strided(
      tensor,
      half * chunk_ * row,
      {{shape_.batch, shape_.sequence * row}, {chunk_, row}, {heads, features}, {features, 1}});
}

TensorArg PackedLayout::queries(const Tensor& projections, int half) const {
  return half_of(projections, half, shape_.heads, shape_.head_dim);
}

TensorArg PackedLayout::results(const Tensor& results, int half) const {
  return half_of(results, half, shape_.heads, shape_.value_size());
}

TensorArg PackedLayout::dense_queries(const Tensor& memory) const {
  return strided(memory,
                 0,
                 {{shape_.batch, chunk_ * shape_.query_features()},
                  {chunk_, shape_.query_features()},
                  {shape_.heads, shape_.head_dim},
                  {shape_.head_dim, 1}});
}

TensorArg PackedLayout::block(
    const Tensor& blocks, i64 offset, i64 positions, i64 heads, i64 features) const {
  const i64 sample = heads * features;
  return strided(blocks,
                 offset,
                 {{shape_.batch, sample},
                  {positions, shape_.batch * sample},
                  {heads, features},
                  {features, 1}});
}

TensorArg PackedLayout::keys(const Tensor& blocks, i64 offset, i64 positions) const {
  return block(blocks, offset, positions, shape_.kv_heads, shape_.head_dim);
}

TensorArg PackedLayout::values(const Tensor& blocks, i64 offset, i64 positions) const {
  return block(blocks, offset, positions, shape_.kv_heads, shape_.value_size());
}

template <class Move>
void PackedLayout::for_parts(const Tensor& projections, const Tensor& blocks, Move&& move) const {
  const i64 row = projections.strides()[0];
  const auto part = [&](i64 from, i64 features, i64 to) {
    // [half, position, sample, feature]
    move(strided(projections,
                 from,
                 {{zigzag::kHalves, chunk_ * row},
                  {chunk_, row},
                  {shape_.batch, shape_.sequence * row},
                  {features, 1}}),
         strided(blocks,
                 to,
                 {{zigzag::kHalves, half_elements()},
                  {chunk_, shape_.batch * features},
                  {shape_.batch, features},
                  {features, 1}}));
  };
  const i64 queries = shape_.query_features(), keys = shape_.key_features();
  part(queries, keys, 0);
  part(queries + keys, shape_.value_features(), key_elements(chunk_));
}

Tensor PackedLayout::pack_keys(Context& cx, const Tensor& projections) const {
  Tensor blocks = cx.empty({zigzag::kHalves, half_elements()}, projections.dtype());
  for_parts(projections, blocks, [&](const TensorArg& row, const TensorArg& block) {
    copy(cx, row, block);
  });
  return blocks;
}

void PackedLayout::unpack_keys(Context& cx, const Tensor& blocks, const Tensor& projections) const {
  for_parts(projections, blocks, [&](const TensorArg& row, const TensorArg& block) {
    copy(cx, block, row);
  });
}

Tensor PackedLayout::rows_of(Context& cx, const Tensor& rows, int half) const {
  Tensor dense = cx.empty({shape_.batch, chunk_}, rows.dtype());
  copy(cx,
       strided(rows, half * chunk_, {{shape_.batch, shape_.sequence}, {chunk_, 1}}),
       dense.arg());
  return dense;
}

}  // namespace tessera

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

TensorArg PackedLayout::half_of(const Tensor& tensor, int half, i64 heads) const {
  const i64 row = tensor.strides()[0];
  return strided(tensor,
                 half * chunk_ * row,
                 {{shape_.batch, shape_.sequence * row},
                  {chunk_, row},
                  {heads, shape_.head_dim},
                  {shape_.head_dim, 1}});
}

TensorArg PackedLayout::queries(const Tensor& projections, int half) const {
  return half_of(projections, half, shape_.heads);
}

TensorArg PackedLayout::results(const Tensor& results, int half) const {
  return half_of(results, half, shape_.heads);
}

TensorArg PackedLayout::dense_queries(const Tensor& memory) const {
  return strided(memory,
                 0,
                 {{shape_.batch, chunk_ * q_features()},
                  {chunk_, q_features()},
                  {shape_.heads, shape_.head_dim},
                  {shape_.head_dim, 1}});
}

TensorArg PackedLayout::keys(const Tensor& blocks, i64 offset, i64 positions) const {
  return strided(blocks,
                 offset,
                 {{shape_.batch, kv_features()},
                  {positions, position_elements()},
                  {shape_.kv_heads, shape_.head_dim},
                  {shape_.head_dim, 1}});
}

// [half, k or v, position, sample, feature]
TensorArg PackedLayout::keys_in(const Tensor& projections) const {
  const i64 row = projections.strides()[0];
  return strided(projections,
                 q_features(),
                 {{zigzag::kHalves, chunk_ * row},
                  {2, kv_features()},
                  {chunk_, row},
                  {shape_.batch, shape_.sequence * row},
                  {kv_features(), 1}});
}

Tensor PackedLayout::pack_keys(Context& cx, const Tensor& projections) const {
  Tensor blocks = cx.empty({zigzag::kHalves, 2, block_elements()}, projections.dtype());
  const Shape shape{zigzag::kHalves, 2, chunk_, shape_.batch, kv_features()};
  copy(cx, keys_in(projections), blocks.view(shape).arg());
  return blocks;
}

void PackedLayout::unpack_keys(Context& cx, const Tensor& blocks, const Tensor& projections) const {
  const Shape shape{zigzag::kHalves, 2, chunk_, shape_.batch, kv_features()};
  copy(cx, blocks.view(shape).arg(), keys_in(projections));
}

Tensor PackedLayout::rows_of(Context& cx, const Tensor& rows, int half) const {
  Tensor dense = cx.empty({shape_.batch * chunk_}, rows.dtype());
  copy(cx,
       strided(rows, half * chunk_, {{shape_.batch, shape_.sequence}, {chunk_, 1}}),
       dense.view({shape_.batch, chunk_}).arg());
  return dense;
}

}  // namespace tessera

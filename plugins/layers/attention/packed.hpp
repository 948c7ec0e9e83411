#pragma once
#include <initializer_list>

#include "tessera/ops.hpp"

namespace tessera {

/// One dimension of a view.
struct Extent {
  i64 size, stride;
};
/// Elements of a tensor's memory from `offset` on, in any order.
TensorArg strided(const Tensor& tensor, i64 offset, std::initializer_list<Extent> extents);
void copy(Context& cx, const TensorArg& from, const TensorArg& to);
/// x itself where it has this dtype.
Tensor converted(Context& cx, const Tensor& x, DType dtype);

/// Where things lie on a context-parallel rank, which holds two chunks of each sample (zigzag.hpp):
/// in projections [b · s, (H + 2K) · d], in results [b · s, H · d], and in blocks [l, b, K · d],
/// the form in which keys or values of a chunk travel. Positions are outermost there, so that the
/// blocks of consecutive chunks are one longer block.
class PackedLayout {
 public:
  PackedLayout(const ops::AttentionShape& shape, i64 ranks);

  i64 ranks() const { return ranks_; }
  i64 chunk() const { return chunk_; }                                    ///< positions of one
  i64 positions() const { return shape_.sequence * ranks_; }              ///< of a sample
  i64 position_elements() const { return shape_.batch * kv_features(); }  ///< of a block
  i64 block_elements() const { return chunk_ * position_elements(); }

  /// q [b, l, H, d] of half 0 or 1 of the projections; the same of results.
  TensorArg queries(const Tensor& projections, int half) const;
  TensorArg results(const Tensor& results, int half) const;
  /// The same shape in memory of its own.
  TensorArg dense_queries(const Tensor& memory) const;
  /// Keys or values [b, positions, K, d] in a block that begins at `offset`.
  TensorArg keys(const Tensor& blocks, i64 offset, i64 positions) const;

  /// Keys and values as [half, k or v, block], and the way back into projections.
  Tensor pack_keys(Context& cx, const Tensor& projections) const;
  void unpack_keys(Context& cx, const Tensor& blocks, const Tensor& projections) const;
  /// This rank's rows of one half, dense [b · l].
  Tensor rows_of(Context& cx, const Tensor& rows, int half) const;

 private:
  i64 q_features() const { return shape_.heads * shape_.head_dim; }
  i64 kv_features() const { return shape_.kv_heads * shape_.head_dim; }
  TensorArg half_of(const Tensor& tensor, int half, i64 heads) const;
  TensorArg keys_in(const Tensor& projections) const;

  ops::AttentionShape shape_;
  i64 ranks_, chunk_;
};

}  // namespace tessera

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
/// in projections [b · s, H · d + K · (d + dv)], in results [b · s, H · dv], and in blocks: keys
/// [l, b, K · d] or values [l, b, K · dv], the form in which those of a chunk travel. Positions are
/// outermost there, so that the blocks of consecutive chunks are one longer block. A half is the
/// block of its keys, then that of its values.
class PackedLayout {
 public:
  PackedLayout(const ops::AttentionShape& shape, i64 ranks);

  i64 ranks() const { return ranks_; }
  i64 chunk() const { return chunk_; }                        ///< positions of one
  i64 positions() const { return shape_.sequence * ranks_; }  ///< of a sample
  /// Elements of `positions` positions in blocks.
  i64 key_elements(i64 positions) const { return positions * shape_.batch * shape_.key_features(); }
  i64 value_elements(i64 positions) const {
    return positions * shape_.batch * shape_.value_features();
  }
  i64 query_elements() const {
    return chunk_ * shape_.batch * shape_.query_features();
  }  ///< a half
  i64 half_elements() const { return key_elements(chunk_) + value_elements(chunk_); }

  /// q [b, l, H, d] of half 0 or 1 of the projections; the same of results.
  TensorArg queries(const Tensor& projections, int half) const;
  TensorArg results(const Tensor& results, int half) const;
  /// The same shape in memory of its own.
  TensorArg dense_queries(const Tensor& memory) const;
  /// Keys [b, positions, K, d] in a block that begins at `offset`; values [b, positions, K, dv].
  TensorArg keys(const Tensor& blocks, i64 offset, i64 positions) const;
  TensorArg values(const Tensor& blocks, i64 offset, i64 positions) const;

  /// Keys and values as [half, half_elements()], and the way back into projections.
  Tensor pack_keys(Context& cx, const Tensor& projections) const;
  void unpack_keys(Context& cx, const Tensor& blocks, const Tensor& projections) const;
  /// This rank's rows of one half, dense [b, l].
  Tensor rows_of(Context& cx, const Tensor& rows, int half) const;

 private:
  TensorArg half_of(const Tensor& tensor, int half, i64 heads, i64 features) const;
  TensorArg block(const Tensor& blocks, i64 offset, i64 positions, i64 heads, i64 features) const;
  /// Calls move(part of the projections, the same in blocks) for keys and for values.
  template <class Move>
  void for_parts(const Tensor& projections, const Tensor& blocks, Move&& move) const;

  ops::AttentionShape shape_;
  i64 ranks_, chunk_;
};

}  // namespace tessera

#pragma once
#include <array>

#include "context_attention.hpp"
#include "packed.hpp"
#include "tessera/zigzag.hpp"

namespace tessera {

/// Keys [b, n, K, d] and values [b, n, K, dv] of consecutive positions.
struct Keys {
  TensorArg k, v;
  i64 first;  ///< position of the first one in its sample
};

/// This rank's queries, which meet the keys part by part. Kept for the backward pass.
class Queries {
 public:
  Queries(Context& cx, const Tensor& qkv, const Tensor& row_ids, const ContextAttention& attention);

  const PackedLayout& layout() const { return layout_; }
  const Tensor& projections() const { return qkv_; }
  /// How many positions of a sample, from its first on, queries of this half may see.
  i64 horizon(int half) const;
  /// May queries of this half see keys of [first, first + a chunk)?
  bool reach(int half, i64 first) const;
  /// One more part of the keys that a half sees, no key twice. 16-bit parts are joined in fp32.
  void attend(Context& cx, int half, const Keys& keys);
  /// [b · s, H · dv], after the last part: rounds what was joined.
  Tensor result(Context& cx);

 private:
  friend class QueryGradients;
  struct Half {
    i64 first = 0;  ///< position of its first query
    Tensor row_ids, first_keys, last_keys, lse;
    bool met = false;  ///< has it seen keys?
  };
  /// What forward and backward are given alike.
  template <class Args>
  void give(Args& args, int half, const Keys& keys) const;

  PackedLayout layout_;
  AttentionSpec spec_;
  Tensor qkv_, out_;
  std::array<Half, zigzag::kHalves> halves_;
};

/// The dtype in which 16-bit results of parts are added up, so that the whole is rounded once;
/// other dtypes are their own.
inline DType sum_dtype(DType parts) {
  return dtype_size(parts) < dtype_size(DType::fp32) ? DType::fp32 : parts;
}

/// A sum of gradients [n] to which contributions come one by one. Where both have one dtype the
/// first is written in place; all others are written elsewhere and then added.
class GradientSum {
 public:
  /// `sum` is of sum_dtype(parts).
  GradientSum(Tensor sum, DType parts) : sum_(std::move(sum)), parts_(parts) {}
  /// Where the next contribution belongs, one to the first `length` elements. The first one is the
  /// longest.
  Tensor next(Context& cx, i64 length);
  /// Call when the contribution is there.
  void add(Context& cx);

 private:
  Tensor sum_, next_;
  DType parts_;
  bool begun_ = false;
};

/// Those of keys and of values.
struct KeyGradientSums {
  GradientSum keys, values;
};

/// The backward pass of Queries, when all keys have been attended to.
class QueryGradients {
 public:
  /// `gradient` of the result.
  QueryGradients(Context& cx, const Queries& queries, Tensor gradient);
  /// Differentiates one `attend`. Adds its keys' part to `sums`, which are blocks.
  void differentiate(Context& cx, int half, const Keys& keys, KeyGradientSums& sums);
  /// The gradient of the projections. `key_blocks`: complete gradients of this rank's own keys.
  Tensor projections(Context& cx, const Tensor& key_blocks) const;

 private:
  const Queries& queries_;
  Tensor gradient_, sum_;  // sum_ [half, b · l · H · d], of sum_dtype
  std::vector<GradientSum> sums_;
};

}  // namespace tessera

#pragma once
#include <array>

#include "context_attention.hpp"
#include "packed.hpp"
#include "tessera/zigzag.hpp"

namespace tessera {

/// Keys and values of consecutive positions, [b, n, K, d].
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
  /// How many positions of a sample, from its first on, queries of this half see.
  i64 horizon(int half) const;
  /// One more part of the keys that a half sees, no key twice.
  void attend(Context& cx, int half, const Keys& keys);
  /// [b · s, H · d], of all keys so far.
  const Tensor& result() const { return out_; }

 private:
  friend class QueryGradients;
  struct Half {
    i64 first = 0;  ///< position of its first query
    Tensor row_ids, lse;
    bool met = false;  ///< has it seen keys?
  };
  AttentionSpec spec_for(const Half& half, const Keys& keys) const;

  PackedLayout layout_;
  AttentionSpec spec_;
  Tensor qkv_, out_;
  std::array<Half, zigzag::kHalves> halves_;
};

/// A sum of gradients [m, n] to which contributions come one by one: the first is written in place,
/// each later one elsewhere and then added.
class GradientSum {
 public:
  explicit GradientSum(Tensor sum) : sum_(std::move(sum)) {}
  /// Where the next contribution belongs, one to the first `length` elements of each row. The first
  /// one is the longest.
  Tensor next(Context& cx, i64 length);
  /// It is there.
  void add(Context& cx);

 private:
  Tensor sum_, next_;
  bool begun_ = false;
};

/// The backward pass of Queries, when all keys have been attended to.
class QueryGradients {
 public:
  /// `gradient` of the result.
  QueryGradients(Context& cx, const Queries& queries, Tensor gradient);
  /// Differentiates one `attend`. Adds its keys' part to `key_sum` [k or v, blocks].
  void differentiate(Context& cx, int half, const Keys& keys, GradientSum& key_sum);
  /// The gradient of the projections. `key_blocks`: complete gradients of this rank's own keys.
  Tensor projections(Context& cx, const Tensor& key_blocks) const;

 private:
  const Queries& queries_;
  Tensor gradient_, sum_;  // sum_ [half, b · l · H · d]
  std::vector<GradientSum> sums_;
};

}  // namespace tessera

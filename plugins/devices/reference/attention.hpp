#pragma once
#include "elements.hpp"
#include "tessera/ops/attention.hpp"
#include "tessera/random.hpp"

namespace tessera::reference {

/// Element (sample, position, head, feature) of q, k, v, out or a gradient.
template <class T>
class HeadVectors {
 public:
  explicit HeadVectors(const TensorArg& tensor) : tensor_(tensor) {}
  T& operator()(i64 sample, i64 position, i64 head, i64 feature) const {
    const i64* strides = tensor_.strides;
    return tensor_
        .as<T>()[sample * strides[0] + position * strides[1] + head * strides[2] + feature];
  }

 private:
  const TensorArg& tensor_;
};

/// Σ over features of a · b, for two positions of one sample.
template <class A, class B>
double dot(const HeadVectors<A>& a,
           i64 a_position,
           i64 a_head,
           const HeadVectors<B>& b,
           i64 b_position,
           i64 b_head,
           i64 sample,
           i64 features) {
  double sum = 0;
  for (i64 f = 0; f < features; ++f) {
    sum += static_cast<double>(a(sample, a_position, a_head, f)) *
           static_cast<double>(b(sample, b_position, b_head, f));
  }
  return sum;
}

/// The keys that query `i` of a sample sees.
template <class Args>
KeyRange keys_of(const Args& args, i64 sample, i64 i) {
  const i64 at = sample * args.q.shape[1] + i;
  const auto limit = [at](const TensorArg& of) {
    return of.rank == 0 ? nullptr : of.template as<const i32>() + at;
  };
  return visible_keys(args.spec, i, args.k.shape[1], limit(args.first), limit(args.last));
}

/// What a probability is multiplied by: 0 when dropped, 1 / (1 - p) when kept.
inline double attention_keep(const AttentionSpec& spec, i64 query_row, i64 head, i64 key) {
  const i64 j = spec.key_offset + key;
  const auto words =
      Philox::words(spec.key, attention_counter(query_row, spec.head_offset + head, j));
  const bool keep = words[static_cast<std::size_t>(j % 4)] < keep_threshold(spec.dropout);
  return keep ? 1 / (1 - spec.dropout) : 0;
}

}  // namespace tessera::reference

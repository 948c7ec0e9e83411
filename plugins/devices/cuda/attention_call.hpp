#pragma once
// What all kernels of attention know: where heads lie, who sees whom, what is dropped.
#include <algorithm>

#include "packs.hpp"
#include "tessera/ops/attention.hpp"
#include "tessera/random.hpp"

namespace tessera::cuda::attention {

inline constexpr int kThreads = 128;

/// Positions of q, k, v, out or a gradient: [sample, position, head, feature].
template <class T>
struct Positions {
  T* data;
  i64 sample, position, head;  ///< strides
  bool aligned;                ///< each position begins at a multiple of 16 bytes

  explicit Positions(const TensorArg& tensor)
      : data(tensor.as<T>()),
        sample(tensor.strides[0]),
        position(tensor.strides[1]),
        head(tensor.strides[2]) {
    aligned = cuda::aligned(data);
    for (int d = 0; d < 3; ++d) {
      if (tensor.shape[d] > 1 && tensor.strides[d] % kPack<T> != 0) aligned = false;
    }
  }
  /// Position 0 of a head.
  __device__ T* of(i64 s, i64 h) const { return data + s * sample + h * head; }
};

/// What the queries of a tile see: some of them see keys of `some` only, all of them those of
/// `all`.
struct Seen {
  KeyRange some, all;
  /// Does a tile of keys [first, end) have one that a query of the tile does not see? Keys after
  /// the last one that some see are not loaded and do not count.
  __device__ bool hides(i64 first, i64 end) const {
    return first < all.begin || (end > all.end && all.end < some.end);
  }
};

/// What all kernels of a call know.
struct Call {
  i64 samples, queries, keys, heads, kv_heads;
  int features, value_features;
  AttentionSpec spec;
  const i32 *first_keys, *last_keys;  ///< [samples, queries]; none: no limits of a query's own
  // Dropout: a score is kept where its random word is less than this.
  double kept_factor;
  u64 threshold;
  const i64* row_ids;  ///< none: nothing is dropped

  template <class Args>
  explicit Call(const Args& args)
      : samples(args.q.shape[0]),
        queries(args.q.shape[1]),
        keys(args.k.shape[1]),
        heads(args.q.shape[2]),
        kv_heads(args.k.shape[2]),
        features(static_cast<int>(args.q.shape[3])),
        value_features(static_cast<int>(args.v.shape[3])),
        spec(args.spec),
        first_keys(limit(args.first)),
        last_keys(limit(args.last)),
        kept_factor(1 / (1 - args.spec.dropout)),
        threshold(keep_threshold(args.spec.dropout)),
        row_ids(args.spec.dropout > 0 ? args.row_ids.template as<const i64>() : nullptr) {}

  __device__ bool drops() const { return row_ids != nullptr; }
  __device__ bool limited() const { return first_keys != nullptr || last_keys != nullptr; }
  /// The keys that a query sees.
  __device__ KeyRange keys_of(i64 sample, i64 query) const {
    const i64 at = sample * queries + query;
    return visible_keys(spec,
                        query,
                        keys,
                        first_keys == nullptr ? nullptr : first_keys + at,
                        last_keys == nullptr ? nullptr : last_keys + at);
  }
  /// What queries [from, to) see. Without limits of their own the first and the last one tell.
  __device__ Seen seen(i64 sample, i64 from, i64 to) const {
    const KeyRange of_first = keys_of(sample, from), of_last = keys_of(sample, to - 1);
    Seen seen = {{of_first.begin, of_last.end}, {of_last.begin, of_first.end}};
    if (!limited()) return seen;
    seen = {{keys, 0}, {0, keys}};
    for (i64 query = from; query < to; ++query) {
      const KeyRange range = keys_of(sample, query);
      if (range.begin < range.end) {
        seen.some.begin = range.begin < seen.some.begin ? range.begin : seen.some.begin;
        seen.some.end = range.end > seen.some.end ? range.end : seen.some.end;
      }
      seen.all.begin = range.begin > seen.all.begin ? range.begin : seen.all.begin;
      seen.all.end = range.end < seen.all.end ? range.end : seen.all.end;
    }
    return seen;
  }
  /// The queries that may see some of the keys [first, last), but for limits of their own.
  __device__ KeyRange queries_of(i64 first, i64 last) const {
    if (!spec.causal) return {0, queries};
    const i64 begin = first - spec.causal_offset;
    const i64 end = spec.window > 0 ? last + spec.window - spec.causal_offset - 1 : queries;
    return {begin > 0 ? begin : 0, end < queries ? end : queries};
  }

 private:
  static const i32* limit(const TensorArg& arg) {
    return arg.rank > 0 ? arg.as<const i32>() : nullptr;
  }
};

/// What a block has: a tile of rows of one head. A grid has a tile of each head before the next
/// tile of any; blocks are started in that order.
struct HeadTile {
  i64 tile, tiles, sample, head;
  __device__ HeadTile(i64 samples, i64 heads)
      : tile(blockIdx.x / (samples * heads)),
        tiles(gridDim.x / (samples * heads)),
        sample(blockIdx.x % (samples * heads) / heads),
        head(blockIdx.x % (samples * heads) % heads) {}
  /// The same counted from the end.
  __device__ i64 last_first() const { return tiles - 1 - tile; }
};

/// Which scores of a tile are visible: `visible_keys` in numbers that fit registers.
class Visible {
 public:
  __device__ Visible(const Call& call, i64 sample, i64 first_query, i64 first_key)
      : call_(call),
        at_(sample * call.queries + first_query),
        queries_(bounded(call.queries - first_query)),
        keys_(bounded(call.keys - first_key)),
        position_(bounded(call.spec.key_offset + first_key)) {
    const i64 ahead = first_query + call.spec.causal_offset + 1 - first_key;
    if (call.spec.causal) ahead_ = bounded(ahead);
    if (call.spec.causal && call.spec.window > 0) behind_ = bounded(ahead - call.spec.window);
  }
  /// Does the tile's query see its key?
  __device__ __forceinline__ bool operator()(int query, int key) const {
    const bool sees = key < keys_ && key < ahead_ + query && key >= behind_ + query;
    return call_.limited() ? sees && in_limits(query, position_ + key) : sees;
  }

 private:
  static constexpr int kFar = 1 << 24;
  static __device__ int bounded(i64 value) {
    return static_cast<int>(value < -kFar ? -kFar : (value > kFar ? kFar : value));
  }
  __device__ bool in_limits(int query, int position) const {
    if (query >= queries_) return false;
    if (call_.first_keys != nullptr && position < call_.first_keys[at_ + query]) return false;
    if (call_.last_keys == nullptr) return true;
    const int last = call_.last_keys[at_ + query];
    const bool ends = call_.spec.window > 0 && !call_.spec.causal;  // the window ends at `last`
    return position <= last && (!ends || position > last - call_.spec.window);
  }

  const Call& call_;
  i64 at_;  ///< of the tile's first query among limits
  int queries_, keys_, position_, ahead_ = kFar, behind_ = -kFar;
};

/// Which probabilities of a query are kept. A call of Philox has the words of four neighbours, so
/// keys are asked for in order.
class Kept {
 public:
  __device__ Kept(const Call& call, i64 sample, i64 head, i64 query)
      : call_(call),
        row_(call.drops() ? call.row_ids[sample * call.queries + query] : 0),
        head_(call.spec.head_offset + head) {}
  __device__ bool operator()(i64 key) {
    const i64 j = call_.spec.key_offset + key;
    if (j >> 2 != four_) {
      four_ = j >> 2;
      words_ = Philox::words(call_.spec.key, attention_counter(row_, head_, j));
    }
    // Not words_[j % 4]: an index that the compiler does not know puts them into memory.
    const u32 even = (j & 2) != 0 ? words_[2] : words_[0],
              odd = (j & 2) != 0 ? words_[3] : words_[1];
    return ((j & 1) != 0 ? odd : even) < call_.threshold;
  }

 private:
  const Call& call_;
  i64 row_, head_, four_ = -1;
  Philox::Words words_{};
};

template <class V>
__device__ __forceinline__ V larger(V a, V b) {
  return b > a || b != b ? b : a;  // not a number is the largest
}
__device__ __forceinline__ float power_of_2(float value) { return exp2f(value); }
__device__ __forceinline__ double power_of_2(double value) { return exp2(value); }
/// e^value is 2^(value · kLog2e).
template <class V>
inline constexpr V kLog2e = static_cast<V>(1.4426950408889634);
/// e^value. In fp32 faster than expf, and as exact where it is not tiny.
template <class V>
__device__ __forceinline__ V exponential(V value) {
  return power_of_2(value * kLog2e<V>);
}

/// What the two passes of the gradients read.
template <class T>
struct Inputs {
  Call call;
  Positions<const T> q, k, v, out, grad;
  const Compute<T>* lse;

  explicit Inputs(const AttentionBackwardArgs& args)
      : call(args),
        q(args.q),
        k(args.k),
        v(args.v),
        out(args.out),
        grad(args.grad),
        lse(args.lse.as<const Compute<T>>()) {}
};

/// The largest heads that kernels have tiles for.
constexpr i64 most_features(DType dtype) { return dtype == DType::fp64 ? 128 : 256; }
template <class Args>
void require_features(const Args& args) {
  const i64 most = most_features(args.q.dtype);
  const i64 features = std::max(args.q.shape[3], args.v.shape[3]);
  require(features <= most,
          "{} on cuda is for heads of up to {} features in {}, has {}",
          Args::kName,
          most,
          dtype_name(args.q.dtype),
          features);
}

/// Calls f with the smallest size of tiles that holds a head, as a std::integral_constant.
template <class T, class F>
void with_features(const Call& call, F&& f) {
  const int features = std::max(call.features, call.value_features);
  if (features <= 64) return f(std::integral_constant<int, 64>{});
  if (features <= 128) return f(std::integral_constant<int, 128>{});
  if constexpr (sizeof(T) < sizeof(double)) f(std::integral_constant<int, 256>{});
}

}  // namespace tessera::cuda::attention

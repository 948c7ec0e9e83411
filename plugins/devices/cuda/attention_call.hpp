#pragma once
// What all kernels of attention know: where heads lie, who sees whom, what is dropped.
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

/// What all kernels of a call know.
struct Call {
  i64 samples, queries, keys, heads, kv_heads;
  int features;
  double scale;
  bool causal;
  i64 causal_offset;
  // Dropout: a score is kept where its random word is less than this.
  double kept_factor;
  u64 threshold, key;
  i64 head_offset, key_offset;
  const i64* row_ids;  ///< none: nothing is dropped

  template <class Args>
  explicit Call(const Args& args)
      : samples(args.q.shape[0]),
        queries(args.q.shape[1]),
        keys(args.k.shape[1]),
        heads(args.q.shape[2]),
        kv_heads(args.k.shape[2]),
        features(static_cast<int>(args.q.shape[3])),
        scale(args.spec.scale),
        causal(args.spec.causal),
        causal_offset(args.spec.causal_offset),
        kept_factor(1 / (1 - args.spec.dropout)),
        threshold(keep_threshold(args.spec.dropout)),
        key(args.spec.key),
        head_offset(args.spec.head_offset),
        key_offset(args.spec.key_offset),
        row_ids(args.spec.dropout > 0 ? args.row_ids.template as<const i64>() : nullptr) {}

  __device__ bool drops() const { return row_ids != nullptr; }
  /// How many keys a query sees: the first ones.
  __device__ i64 visible(i64 query) const {
    if (!causal) return keys;
    const i64 seen = query + causal_offset + 1;
    return seen < 0 ? 0 : (seen < keys ? seen : keys);
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

/// Which scores of a tile are visible, in numbers that fit registers.
class Visible {
 public:
  __device__ Visible(const Call& call, i64 first_query, i64 first_key)
      : keys_(bounded(call.keys - first_key)),
        ahead_(call.causal ? bounded(first_query + call.causal_offset + 1 - first_key) : kFar) {}
  /// Does the tile's query see its key?
  __device__ __forceinline__ bool operator()(int query, int key) const {
    return key < keys_ && key < ahead_ + query;
  }

 private:
  static constexpr int kFar = 1 << 24;
  static __device__ int bounded(i64 value) {
    return static_cast<int>(value < -kFar ? -kFar : (value > kFar ? kFar : value));
  }
  int keys_, ahead_;
};

/// Which probabilities of a query are kept. A call of Philox has the words of four neighbours, so
/// keys are asked for in order.
class Kept {
 public:
  __device__ Kept(const Call& call, i64 sample, i64 head, i64 query)
      : call_(call),
        row_(call.drops() ? call.row_ids[sample * call.queries + query] : 0),
        head_(call.head_offset + head) {}
  __device__ bool operator()(i64 key) {
    const i64 j = call_.key_offset + key;
    if (j >> 2 != four_) {
      four_ = j >> 2;
      words_ = Philox::words(call_.key, attention_counter(row_, head_, j));
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
inline void require_features(std::string_view operation, const TensorArg& q) {
  const i64 most = most_features(q.dtype), features = q.shape[3];
  require(features <= most,
          "{} on cuda is for heads of up to {} features in {}, has {}",
          operation,
          most,
          dtype_name(q.dtype),
          features);
}

/// Calls f with the smallest size of tiles that holds a head, as a std::integral_constant.
template <class T, class F>
void with_features(i64 features, F&& f) {
  if (features <= 64) return f(std::integral_constant<int, 64>{});
  if (features <= 128) return f(std::integral_constant<int, 128>{});
  if constexpr (sizeof(T) < sizeof(double)) f(std::integral_constant<int, 256>{});
}

}  // namespace tessera::cuda::attention

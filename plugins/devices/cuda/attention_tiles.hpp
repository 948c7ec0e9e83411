#pragma once
// Tiles of attention, in plain arithmetic. A block of 128 threads keeps rows of its own in shared
// memory (queries, or keys) while the others come past, a tile at a time. Of the scores between the
// two, a thread computes kRows / 8 × kColumns / 16 in registers; a row is that of 16 lanes of one
// warp. Tiles are laid out so that a warp's accesses of 16 bytes meet no bank twice.
#include "packs.hpp"
#include "tessera/ops/attention.hpp"
#include "tessera/random.hpp"
#include "unroll.hpp"

namespace tessera::cuda::attention {

inline constexpr int kThreads = 128, kRowLanes = 8, kColumnLanes = 16;

/// Neighbours in shared memory, by one access of 16 bytes, or two of doubles.
template <int kCount, class T>
__device__ __forceinline__ Pack<T, kCount> packed(const T* from) {
  return *reinterpret_cast<const Pack<T, kCount>*>(from);
}

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

/// Of one thread: where its scores are.
__device__ __forceinline__ int row_lane() { return static_cast<int>(threadIdx.x) / kColumnLanes; }
__device__ __forceinline__ int column_lane() {
  return static_cast<int>(threadIdx.x) % kColumnLanes;
}
/// The thread's row i of the tile. Four that follow each other, so that they share random words.
__device__ __forceinline__ int row(int i) { return i / 4 * 4 * kRowLanes + row_lane() * 4 + i % 4; }

/// Sum or largest over the lanes of a row.
template <class V>
__device__ __forceinline__ V row_sum(V value) {
  for (int distance = kColumnLanes / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}
template <class V>
__device__ __forceinline__ V larger(V a, V b) {
  return b > a || b != b ? b : a;  // not a number is the largest
}
template <class V>
__device__ __forceinline__ V row_max(V value) {
  for (int distance = kColumnLanes / 2; distance > 0; distance /= 2) {
    value = larger(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

__device__ __forceinline__ float power_of_2(float value) { return exp2f(value); }
__device__ __forceinline__ double power_of_2(double value) { return exp2(value); }
/// e^value. In fp32 faster than expf, and as exact where it is not tiny.
template <class V>
__device__ __forceinline__ V exponential(V value) {
  return power_of_2(value * static_cast<V>(1.4426950408889634));
}

/// The sizes of a block's tiles, and what it computes with them. V: the type of sums.
template <class V, int kMostFeatures, int kRows_, int kColumns_>
struct Tiles {
  static constexpr int kRows = kRows_, kColumns = kColumns_;
  static constexpr int kRowsEach = kRows / kRowLanes, kColumnsEach = kColumns / kColumnLanes;
  static constexpr int kSumsEach = kMostFeatures / kColumnLanes;
  static constexpr int kStride = kMostFeatures + 16 / static_cast<int>(sizeof(V));
  static constexpr int kWeightStride = kColumns + 4;
  static_assert(kRowsEach % 4 == 0 && kColumns % 4 == 0 && kSumsEach % 4 == 0);

  using Own = V[kRows * kStride];
  using Others = V[kColumns * kStride];
  using Weights = V[kRows * kWeightStride];
  using Scores = V[kRowsEach][kColumnsEach];
  using Sums = V[kRowsEach][kSumsEach];

  /// Where the others' row is: those of one thread are a whole turn of lanes apart.
  static __device__ __forceinline__ int slot(int other) {
    return other % kColumnsEach * kColumnLanes + other / kColumnsEach;
  }
  /// The thread's column j of the tile.
  static __device__ __forceinline__ int column(int j) { return column_lane() * kColumnsEach + j; }

  template <class T>
  static __device__ void load_own(
      Own& to, const Positions<const T>& from, const T* head, i64 first, i64 end, int features) {
    load_rows<kRows>(to, from, head, first, end, features, [](int r) { return r; });
  }
  template <class T>
  static __device__ void load_others(
      Others& to, const Positions<const T>& from, const T* head, i64 first, i64 end, int features) {
    load_rows<kColumns>(to, from, head, first, end, features, [](int r) { return slot(r); });
  }

  /// scores = own · othersᵀ
  static __device__ __forceinline__ void multiply(Scores& scores,
                                                  const Own& own,
                                                  const Others& others,
                                                  int features) {
    TESSERA_UNROLL for (int i = 0; i < kRowsEach; ++i) {
      TESSERA_UNROLL for (int j = 0; j < kColumnsEach; ++j) scores[i][j] = 0;
    }
    TESSERA_DO_NOT_UNROLL for (int f = 0; f < features; f += 4) {
      Pack<V, 4> right[kColumnsEach];
      TESSERA_UNROLL for (int j = 0; j < kColumnsEach; ++j) {
        right[j] = packed<4>(others + (j * kColumnLanes + column_lane()) * kStride + f);
      }
      TESSERA_UNROLL for (int i = 0; i < kRowsEach; ++i) {
        const Pack<V, 4> left = packed<4>(own + row(i) * kStride + f);
        TESSERA_UNROLL for (int j = 0; j < kColumnsEach; ++j) {
          TESSERA_UNROLL for (int e = 0; e < 4; ++e) scores[i][j] += left.of[e] * right[j].of[e];
        }
      }
    }
  }

  /// Hands a row's values to its other lanes.
  static __device__ __forceinline__ void store(Weights& weights, const Scores& scores) {
    __syncwarp();  // they have read the last ones
    TESSERA_UNROLL for (int i = 0; i < kRowsEach; ++i) {
      TESSERA_UNROLL for (int j = 0; j < kColumnsEach; ++j) {
        weights[row(i) * kWeightStride + column(j)] = scores[i][j];
      }
    }
    __syncwarp();
  }

  /// sums += weights · others
  static __device__ __forceinline__ void add_products(Sums& sums,
                                                      const Weights& weights,
                                                      const Others& others) {
    TESSERA_DO_NOT_UNROLL for (int first = 0; first < kColumns; first += 4) {
      Pack<V, 4> left[kRowsEach];
      TESSERA_UNROLL for (int i = 0; i < kRowsEach; ++i) {
        left[i] = packed<4>(weights + row(i) * kWeightStride + first);
      }
      TESSERA_UNROLL for (int e = 0; e < 4; ++e) {
        const V* from = others + slot(first + e) * kStride + 4 * column_lane();
        TESSERA_UNROLL for (int c = 0; c < kSumsEach; c += 4) {
          const Pack<V, 4> right = packed<4>(from + c * kColumnLanes);
          TESSERA_UNROLL for (int i = 0; i < kRowsEach; ++i) {
            TESSERA_UNROLL for (int s = 0; s < 4; ++s) {
              sums[i][c + s] += left[i].of[e] * right.of[s];
            }
          }
        }
      }
    }
  }

  /// The feature of sums[i][c].
  static __device__ __forceinline__ int feature(int c) {
    return c / 4 * 4 * kColumnLanes + 4 * column_lane() + c % 4;
  }
  /// One row of sums, rounded.
  template <class T>
  static __device__ __forceinline__ void store_row(T* to,
                                                   const V (&sums)[kSumsEach],
                                                   int features,
                                                   bool aligned) {
    TESSERA_UNROLL for (int c = 0; c < kSumsEach; c += 4) {
      const V four[] = {sums[c], sums[c + 1], sums[c + 2], sums[c + 3]};
      cuda::store(to + feature(c), four, features - feature(c), aligned);
    }
  }

 private:
  /// Positions [first, first + kCount) of a head; 0 from `end` on, and after the last feature up to
  /// a multiple of four.
  template <int kCount, class T, class Slot>
  static __device__ void load_rows(V* to,
                                   const Positions<const T>& from,
                                   const T* head,
                                   i64 first,
                                   i64 end,
                                   int features,
                                   Slot slot_of) {
    constexpr int kEach = kPack<T>, kAcross = kMostFeatures / kEach;
    for (int n = static_cast<int>(threadIdx.x); n < kCount * kAcross; n += kThreads) {
      const int r = n / kAcross, f = n % kAcross * kEach;
      if (f >= (features + 3) / 4 * 4) continue;
      const bool inside = first + r < end;
      V values[kEach];
      cuda::load(values,
                 head + (first + r) * from.position + f,
                 inside ? features - f : 0,
                 inside && from.aligned);
      Pack<V, kEach> pack;
      TESSERA_UNROLL for (int e = 0; e < kEach; ++e) pack.of[e] = values[e];
      *reinterpret_cast<Pack<V, kEach>*>(to + slot_of(r) * kStride + f) = pack;
    }
  }
};

/// Calls f with the smallest size of tiles that holds the features, as a std::integral_constant.
template <class T, class F>
void with_features(std::string_view operation, i64 features, F&& f) {
  constexpr i64 kMost = sizeof(T) == sizeof(double) ? 128 : 256;
  require(features <= kMost,
          "{} on cuda is for heads of up to {} features, has {}",
          operation,
          kMost,
          features);
  if (features <= 64) return f(std::integral_constant<int, 64>{});
  if (features <= 128) return f(std::integral_constant<int, 128>{});
  if constexpr (kMost == 256) f(std::integral_constant<int, 256>{});
}

}  // namespace tessera::cuda::attention

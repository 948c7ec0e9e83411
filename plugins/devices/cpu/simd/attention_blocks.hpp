#pragma once
#include "simd/block_product.hpp"
#include "simd/math.hpp"
#include "simd/philox.hpp"
#include "simd/storage.hpp"
#include "tessera/ops/attention.hpp"
#include "tessera/parallel_for.hpp"

// What forward and backward attention share: blocks of kQueries queries by kBlock keys.
namespace tessera::cpu::TESSERA_ISA {
namespace {

constexpr i64 kBlock = 64;    // keys; a multiple of every kLanes
constexpr i64 kQueries = 32;  // fewer: less of the blocks on the diagonal is for nothing
constexpr int kBlockVectors = kBlock / kLanes;
constexpr float kMinusInfinity = -__builtin_inff();
constexpr double kLog2E = 1.4426950408889634;

inline i64 round_up(i64 n, i64 unit) { return (n + unit - 1) / unit * unit; }

/// The [positions, d] matrix of one sample's head in a tensor [b, s, heads, d].
template <class T>
struct Head {
  T* data;
  i64 stride;
  T* operator[](i64 position) const { return data + position * stride; }
};
template <class T>
inline Head<T> head_of(const TensorArg& arg, i64 sample, i64 head) {
  return {arg.as<T>() + sample * arg.strides[0] + head * arg.strides[2], arg.strides[1]};
}

/// Copies rows [first, first + n), times a factor, into a dense [n, padded], zero beyond d.
template <class T>
inline void pack_rows(
    Head<const T> from, i64 first, i64 n, i64 d, i64 padded, float* to, float factor = 1) {
  for (i64 row = 0; row < n; ++row) {
    const T* source = from[first + row];
    float* target = to + row * padded;
    for_vectors(d, [=](i64 j, auto count) { store(target + j, factor * load(source + j, count)); });
  }
}

/// Copies rows [first, first + n), n <= kBlock, into columns: [d, kBlock], zero beyond n.
/// `to` has room for d rounded up to kLanes.
template <class T>
inline void pack_columns(Head<const T> from, i64 first, i64 n, i64 d, float* to) {
  for (i64 j = 0; j < kBlock; j += kLanes) {
    for_vectors(d, [=](i64 c, auto count) {
      F rows[kLanes] = {};
      for (int i = 0; i < kLanes; ++i) {
        if (j + i < n) rows[i] = load(from[first + j + i] + c, count);
      }
      transpose(rows);
      for (int i = 0; i < kLanes; ++i) store(to + (c + i) * kBlock + j, rows[i]);
    });
  }
}

/// Sizes of one call, forward or backward.
struct Sizes {
  i64 batch, queries, keys, heads, kv_heads, d, padded, key_blocks;
  template <class Args>
  explicit Sizes(const Args& args)
      : batch(args.q.shape[0]),
        queries(args.q.shape[1]),
        keys(args.k.shape[1]),
        heads(args.q.shape[2]),
        kv_heads(args.k.shape[2]),
        d(args.q.shape[3]),
        padded(round_up(d, kLanes)),
        key_blocks((keys + kBlock - 1) / kBlock) {}
  /// Floats of all keys of one head, packed.
  i64 key_floats() const { return key_blocks * kBlock * padded; }
};

/// Which keys a query sees: [0, visible(i)).
struct Sight {
  i64 keys, offset;
  bool causal;
  i64 visible(i64 query) const {
    if (!causal) return keys;
    const i64 n = query + offset + 1;
    return n < 0 ? 0 : n < keys ? n : keys;
  }
};

/// Random words of the probabilities of one query and kBlock keys.
class BlockWords {
 public:
  /// `rows` of the sample's queries; not read without dropout.
  BlockWords(const AttentionSpec& spec, const i64* rows, i64 head)
      : spec_(spec), rows_(rows), head_(head + spec.head_offset) {}
  /// The words of keys first … first + n - 1, n <= kBlock; valid until the next call.
  const u32* make(i64 query, i64 first, i64 n) {
    const i64 key = spec_.key_offset + first;
    const i64 skipped = key & 3;  // a counter gives the words of four keys
    philox_words(
        spec_.key, attention_counter(rows_[query], head_, key), (skipped + n + 3) / 4, words_);
    return words_ + skipped;
  }

 private:
  const AttentionSpec& spec_;
  const i64* rows_;
  i64 head_;
  alignas(64) u32 words_[kBlock + 8 * kLanes];
};

/// Hands out parts of one thread's scratch; with no base it only counts.
class Carver {
 public:
  explicit Carver(float* base) : base_(base) {}
  float* take(i64 floats) {
    float* part = base_ == nullptr ? nullptr : base_ + used_;
    used_ += floats;
    return part;
  }
  i64 used() const { return used_; }

 private:
  float* base_;
  i64 used_ = 0;
};

/// Calls unit(index, scratch) for every unit on this rank's threads, each with scratch of its own.
template <class Unit>
inline void for_units(i64 units, i64 slots, float* scratch, i64 scratch_floats, Unit&& unit) {
  parallel_for(slots, 1, [&](i64 begin, i64 end) {
    for (i64 slot = begin; slot < end; ++slot) {
      for (i64 i = units * slot / slots; i < units * (slot + 1) / slots; ++i) {
        unit(i, scratch + slot * scratch_floats);
      }
    }
  });
}
inline i64 slots_for(i64 units) {
  const i64 threads = parallel_threads();
  return units < threads ? units : threads;
}

}  // namespace
}  // namespace tessera::cpu::TESSERA_ISA

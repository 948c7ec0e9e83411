#pragma once
#include "simd/block_product.hpp"
#include "simd/math.hpp"
#include "simd/philox.hpp"
#include "simd/storage.hpp"
#include "tessera/ops/attention.hpp"
#include "tessera/parallel_for.hpp"
#include "thread_work.hpp"

// What forward and backward attention share: blocks of kQueries queries by kBlock keys.
namespace tessera::cpu::TESSERA_ISA {
namespace {

constexpr i64 kBlock = 64;    // keys; a multiple of every kLanes
constexpr i64 kQueries = 32;  // fewer: less of the blocks on the diagonal is for nothing
constexpr int kBlockVectors = kBlock / kLanes;
constexpr i64 kColumnUnit = kOnTiles ? 32 : kLanes;  // of the scores that are computed
constexpr float kMinusInfinity = -__builtin_inff();
constexpr double kLog2E = 1.4426950408889634;

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

/// How many rows of keys or queries, or how many features, a word of T holds.
template <class T>
constexpr i64 kDepth = Packed<T>::kDepth;
template <class T>
using Word = typename Packed<T>::Word;

/// 2^x as precisely as what is stored as T can show.
template <class T>
[[gnu::always_inline]] inline F exp2_as(F x) {
  return sizeof(T) < sizeof(float) ? exp2_coarse(x) : exp2(x);
}

/// Packs rows [first, first + n) as a left factor, [n, padded] of words along the features; zero
/// beyond d. Floats are multiplied by `factor`.
template <class T>
inline void pack_left(
    Head<const T> from, i64 first, i64 n, i64 d, i64 padded, Word<T>* to, float factor) {
  for (i64 row = 0; row < n; ++row) {
    const T* source = from[first + row];
    Word<T>* target = to + row * padded;
    if constexpr (kDepth<T> == 1) {
      for_vectors(d,
                  [=](i64 j, auto count) { store(target + j, factor * load(source + j, count)); });
    } else {
      for (i64 j = 0; j < d; j += kDepth<T> * kLanes) {
        store_words(target + j / kDepth<T>, Packed<T>::along(source + j, d - j));
      }
    }
  }
}

/// Packs rows [first, first + n) as a right factor whose inner dimension they are: [n, padded], or
/// half as many rows of words; zero beyond.
template <class T>
inline void pack_right(Head<const T> from, i64 first, i64 n, i64 d, i64 padded, Word<T>* to) {
  if constexpr (kDepth<T> == 1) {
    pack_left(from, first, n, d, padded, to, 1.0F);
  } else {
    const Factor<T> lines = {from[first], 1, from.stride};
    for (i64 c = 0; c < padded; c += kLanes) {
      pack_slab(lines, c, d - c < kLanes ? d - c : kLanes, n, to + c, padded);
      clear_steps(to + c, steps_of<T>(n), padded);
    }
  }
}

/// Packs rows [first, first + n), n <= kBlock, as columns: [d, kBlock], or half as many rows of
/// words; zero beyond n.
template <class T>
inline void pack_columns(Head<const T> from, i64 first, i64 n, i64 d, Word<T>* to) {
  const Factor<T> lines = {from[first], from.stride, 1};
  for (i64 j = 0; j < kBlock; j += kLanes) {
    const i64 left = n - j < kLanes ? n - j : kLanes;
    pack_slab(lines, j, left > 0 ? left : 0, d, to + j, kBlock);
  }
}

/// Sizes of one call, forward or backward. Keys have d features, values dv.
struct Sizes {
  i64 batch, queries, keys, heads, kv_heads, d, dv, padded, padded_v, key_blocks;
  template <class Args>
  explicit Sizes(const Args& args)
      : batch(args.q.shape[0]),
        queries(args.q.shape[1]),
        keys(args.k.shape[1]),
        heads(args.q.shape[2]),
        kv_heads(args.k.shape[2]),
        d(args.q.shape[3]),
        dv(args.v.shape[3]),
        padded(round_up(d, kLanes)),
        padded_v(round_up(dv, kLanes)),
        key_blocks((keys + kBlock - 1) / kBlock) {}
  /// Words of all keys of one head, packed; with pairs, room for twice as many.
  i64 key_words() const { return key_blocks * kBlock * padded; }
  i64 value_words() const { return key_blocks * kBlock * padded_v; }
  /// Multiplications of a forward pass; packing a key and its value takes as long as two queries.
  i64 work() const { return batch * heads * (queries + 2) * keys * (d + dv); }
};

/// The first rows and `columns` of a block of scores as a left factor: as they are, or rounded to
/// pairs of neighbours in `words`. Columns are a multiple of kColumnUnit.
template <class T>
inline Left<false, Word<T>> rows_of_scores(float* scores, i64 rows, i64 columns, Word<T>* words) {
  if constexpr (kDepth<T> == 1) {
    return {scores, kBlock};
  } else {
    constexpr i64 kStride = kBlock / kDepth<T>;
    for (i64 row = 0; row < rows; ++row) {
      T* to = reinterpret_cast<T*>(words + row * kStride);
      for (i64 j = 0; j < columns; j += kLanes) store(to + j, load(scores + row * kBlock + j));
    }
    return {words, kStride};
  }
}

/// The same block transposed: its inner dimension are the rows, in pairs of which the last may lack
/// its second. On tiles a column's pairs lie side by side, zero beyond the rows.
template <class T>
inline auto columns_of_scores(float* scores, i64 rows, i64 columns, Word<T>* words) {
  if constexpr (kDepth<T> == 1) {
    return Left<true, Word<T>>{scores, kBlock};
  } else {
    const auto pair = [=](i64 row, i64 j) {
      const float *first = scores + row * kBlock + j, *second = first + kBlock;
      return Packed<T>::pair(load(first), row + 1 < rows ? load(second) : F{});
    };
    if constexpr (kOnTiles) {
      constexpr i64 kPairs = kQueries / 2;
      for (i64 at = 0; at < kPairs; at += kLanes) {
        for (i64 j = 0; j < columns; j += kLanes) {
          F pairs[kLanes];
          for (i64 i = 0; i < kLanes; ++i) {
            const i64 row = 2 * (at + i);
            pairs[i] = row < rows ? pair(row, j) : F{};
          }
          transpose(pairs);
          for (i64 i = 0; i < kLanes; ++i) store_words(words + (j + i) * kPairs + at, pairs[i]);
        }
      }
      return Left<false, Word<T>>{words, kPairs};
    } else {
      for (i64 row = 0; row < rows; row += 2) {
        for (i64 j = 0; j < columns; j += kLanes) {
          store_words(words + row / 2 * kBlock + j, pair(row, j));
        }
      }
      return Left<true, Word<T>>{words, kBlock};
    }
  }
}

/// What consecutive queries see: some of them keys of `some` only, all of them those of `all`.
struct Seen {
  KeyRange some, all;
  /// Where blocks of keys begin.
  i64 first_block() const { return some.begin / kBlock * kBlock; }
};

/// What queries of a sample see of the keys of a call.
class Sight {
 public:
  template <class Args>
  Sight(const Args& args, const Sizes& size, i64 sample)
      : spec_(args.spec), queries_(size.queries), keys_(size.keys) {
    const i64 at = sample * size.queries;
    if (args.first.rank > 0) first_ = args.first.template as<const i32>() + at;
    if (args.last.rank > 0) last_ = args.last.template as<const i32>() + at;
  }
  KeyRange keys(i64 query) const {
    return visible_keys(spec_,
                        query,
                        keys_,
                        first_ == nullptr ? nullptr : first_ + query,
                        last_ == nullptr ? nullptr : last_ + query);
  }
  /// Without limits of their own the first and the last query tell.
  Seen seen(i64 first, i64 count) const {
    const KeyRange of_first = keys(first), of_last = keys(first + count - 1);
    Seen seen = {{of_first.begin, of_last.end}, {of_last.begin, of_first.end}};
    if (first_ == nullptr && last_ == nullptr) return seen;
    seen = {{keys_, 0}, {0, keys_}};
    for (i64 query = first; query < first + count; ++query) {
      const KeyRange range = keys(query);
      if (range.begin < range.end) {
        seen.some.begin = range.begin < seen.some.begin ? range.begin : seen.some.begin;
        seen.some.end = range.end > seen.some.end ? range.end : seen.some.end;
      }
      seen.all.begin = range.begin > seen.all.begin ? range.begin : seen.all.begin;
      seen.all.end = range.end < seen.all.end ? range.end : seen.all.end;
    }
    return seen;
  }
  /// What all queries see together, from the beginning of a block on.
  KeyRange blocks() const {
    if (queries_ == 0) return {0, 0};
    const Seen all = seen(0, queries_);
    return {all.first_block(), all.some.end};
  }

 private:
  const AttentionSpec& spec_;
  i64 queries_, keys_;
  const i32 *first_ = nullptr, *last_ = nullptr;  // of this sample
};

/// A range counted from key `first` on.
inline KeyRange seen_from(i64 first, KeyRange range) {
  return {range.begin - first, range.end - first};
}

/// Which scores of a block a row does not see: none, those from some column on, or also the first.
enum class Hides { none, end, both };

/// v where the row sees it, `other` elsewhere. The row sees columns [begin, end), of which `at` is
/// the vector's first.
template <Hides kHides>
[[gnu::always_inline]] inline F visible(F v, KeyRange seen, i64 at, F other) {
  if constexpr (kHides != Hides::none) v = keep(v, seen.end - at, other);
  if constexpr (kHides == Hides::both) v = keep(other, seen.begin - at, v);
  return v;
}

/// Calls body(std::integral_constant of Hides) for the block of keys at `key`.
template <class Body>
inline void with_hidden(const Seen& seen, i64 key, Body&& body) {
  if (seen.all.begin > key) return body(std::integral_constant<Hides, Hides::both>{});
  if (seen.all.end < key + kBlock) return body(std::integral_constant<Hides, Hides::end>{});
  body(std::integral_constant<Hides, Hides::none>{});
}

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
  /// Words are as large as floats.
  template <class W>
  void take(i64 words, W*& part) {
    part = base_ == nullptr ? nullptr : reinterpret_cast<W*>(base_ + used_);
    used_ += words;
  }
  i64 used() const { return used_; }

 private:
  float* base_;
  i64 used_ = 0;
};

/// The threads that get units: at most one for each kThreadWork that is begun.
inline i64 slots_for(i64 units, const Sizes& size) {
  return at_most(units, at_most(size.work() / kThreadWork + 1, parallel_threads()));
}

/// Calls unit(index, scratch) for every unit on slots_for threads, each with scratch of its own.
/// Threads take turns, so that each has heads of every sample: how much is visible differs by
/// sample where documents are apart.
template <class Unit>
inline void for_units(
    i64 units, const Sizes& size, float* scratch, i64 scratch_floats, Unit&& unit) {
  const i64 slots = slots_for(units, size);
  parallel_for(slots, 1, [&](i64 begin, i64 end) {
    const TileScope tiles;
    for (i64 slot = begin; slot < end; ++slot) {
      for (i64 i = slot; i < units; i += slots) unit(i, scratch + slot * scratch_floats);
    }
  });
}

}  // namespace
}  // namespace tessera::cpu::TESSERA_ISA

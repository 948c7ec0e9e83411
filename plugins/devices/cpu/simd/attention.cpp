#include "simd/attention_blocks.hpp"
#include "simd/kernels_of_isa.hpp"
#include "tessera/parallel_for.hpp"

// Online softmax (Milakov, Gimelshein 2018; Dao et al. 2022): a row's maximum and sum are kept
// while blocks of keys pass, and what is accumulated is rescaled when the maximum grows. Scores are
// in units of log 2.
namespace tessera::cpu::TESSERA_ISA {
namespace {

/// Scratch of one thread.
template <class T>
struct Scratch {
  Word<T>*k_columns, *v_rows;  // of all keys
  Word<T>*q, *weights;         // of a block of queries
  float *scores, *out, *sums;
  i64 floats;
  Scratch(const Sizes& s, float* base) {
    Carver carver(base);
    for (Word<T>** part : {&k_columns, &v_rows}) carver.take(s.key_words(), *part);
    carver.take(kQueries * s.padded, q);
    carver.take(kDepth<T> == 1 ? 0 : kQueries * kBlock / kDepth<T>, weights);
    carver.take(kQueries * kBlock, scores);
    carver.take(kQueries * s.padded, out);
    carver.take(kQueries * kLanes, sums);
    floats = carver.used();
  }
};

/// Turns the scores of one query and one block into probabilities relative to the maximum so far,
/// and brings what the query accumulated to that maximum. The first `vectors` vectors are computed,
/// the first `seen` keys of them are visible. Scores are multiplied by `factor` first, unless their
/// queries were.
template <class T, bool kMasked, bool kScaled>
[[gnu::always_inline]] inline void softmax_row(float* scores,
                                               float factor,
                                               int vectors,
                                               i64 seen,
                                               float& highest,
                                               float* sum,
                                               float* out,
                                               i64 padded) {
  F top = broadcast(highest);
  for (int v = 0; v < vectors; ++v) {
    F s = load(scores + v * kLanes);
    if (kScaled) {
      s *= factor;
      store(scores + v * kLanes, s);
    }
    if (kMasked) s = keep(s, seen - v * kLanes, broadcast(kMinusInfinity));
    top = maximum(s, top);
  }
  const float now = largest(top);
  const float base = now == kMinusInfinity ? 0.0F : now;  // no key seen so far: all stay zero
  F total = {};
  for (int v = 0; v < vectors; ++v) {
    F p = exp2_as<T>(load(scores + v * kLanes) - base);
    if (kMasked) p = keep(p, seen - v * kLanes);
    total += p;
    store(scores + v * kLanes, p);
  }
  const F shrink = exp2_as<T>(broadcast(highest - base));
  store(sum, load(sum) * shrink + total);
  for (i64 j = 0; j < padded; j += kLanes) store(out + j, load(out + j) * shrink);
  highest = now;
}

template <class T>
void forward_queries(const AttentionArgs& args,
                     const Sizes& size,
                     const Scratch<T>& scratch,
                     i64 sample,
                     i64 head,
                     i64 first,
                     i64 count) {
  const AttentionSpec& spec = args.spec;
  const Sight sight = {size.keys, spec.causal_offset, spec.causal};
  const Keeper keeper(spec.dropout);
  const i64* rows_of_sample =
      spec.dropout > 0 ? args.row_ids.as<const i64>() + sample * size.queries : nullptr;
  BlockWords words(spec, rows_of_sample, head);
  constexpr bool kScaled = kDepth < T >> 1;  // pairs of queries stay exact
  const float factor = static_cast<float>(spec.scale * kLog2E);
  pack_left(
      head_of<const T>(args.q, sample, head), first, count, size.d, size.padded, scratch.q, factor);
  float maxima[kQueries];
  for (float& maximum : maxima) maximum = kMinusInfinity;
  __builtin_memset(scratch.out, 0, sizeof(float) * static_cast<std::size_t>(count * size.padded));
  __builtin_memset(scratch.sums, 0, sizeof(float) * kQueries * kLanes);

  const i64 seen_by_last = sight.visible(first + count - 1);
  for (i64 key = 0; key < seen_by_last; key += kBlock) {
    // Keys of this block that any of the queries sees.
    const i64 depth = seen_by_last - key < kBlock ? seen_by_last - key : kBlock;
    const i64 columns = round_up(depth, kColumnUnit);
    const int vectors = static_cast<int>(columns / kLanes);
    block_product(Left<false, Word<T>>{scratch.q, size.padded},
                  scratch.k_columns + key * size.padded,
                  kBlock,
                  scratch.scores,
                  kBlock,
                  count,
                  columns,
                  steps_of<T>(size.d),
                  false);
    const bool masked = sight.visible(first) < key + kBlock;
    for (i64 row = 0; row < count; ++row) {
      float* scores = scratch.scores + row * kBlock;
      float* sum = scratch.sums + row * kLanes;
      float* out = scratch.out + row * size.padded;
      if (masked) {
        const i64 seen = sight.visible(first + row) - key;
        softmax_row<T, true, kScaled>(
            scores, factor, vectors, seen, maxima[row], sum, out, size.padded);
      } else {
        softmax_row<T, false, kScaled>(
            scores, factor, kBlockVectors, kBlock, maxima[row], sum, out, size.padded);
      }
      if (spec.dropout > 0) {
        const u32* drawn = words.make(first + row, key, depth);
        for (i64 j = 0; j < columns; j += kLanes) {
          store(scores + j, load(scores + j) * keeper.factor(drawn + j));
        }
      }
    }
    block_product(rows_of_scores<T>(scratch.scores, count, columns, scratch.weights),
                  scratch.v_rows + key / kDepth<T> * size.padded,
                  size.padded,
                  scratch.out,
                  size.padded,
                  count,
                  size.padded,
                  steps_of<T>(depth),
                  true);
  }

  const auto result = head_of<T>(args.out, sample, head);
  float* lse = args.lse.as<float>() + (sample * size.heads + head) * size.queries + first;
  for (i64 row = 0; row < count; ++row) {
    const float total = sum(load(scratch.sums + row * kLanes));
    const float inverse = total == 0.0F ? 0.0F : 1.0F / total;
    const float* from = scratch.out + row * size.padded;
    T* to = result[first + row];
    for_vectors(size.d, [=](i64 j, auto n) { store(to + j, load(from + j) * inverse, n); });
    lse[row] =
        total == 0.0F
            ? kMinusInfinity
            : static_cast<float>(maxima[row] / kLog2E + __builtin_log(static_cast<double>(total)));
  }
}

i64 units_of(const Sizes& size) { return size.batch * size.heads; }

template <class T>
void forward(const AttentionArgs& args, void* workspace) {
  const Sizes size(args);
  const i64 group = size.heads / size.kv_heads;
  for_units(units_of(size),
            size,
            static_cast<float*>(workspace),
            Scratch<T>(size, nullptr).floats,
            [&](i64 unit, float* base) {
              const Scratch<T> scratch(size, base);
              const i64 sample = unit / size.heads, head = unit % size.heads;
              const auto k = head_of<const T>(args.k, sample, head / group);
              const auto v = head_of<const T>(args.v, sample, head / group);
              for (i64 key = 0; key < size.keys; key += kBlock) {
                const i64 n = key + kBlock < size.keys ? kBlock : size.keys - key;
                pack_columns(k, key, n, size.d, scratch.k_columns + key * size.padded);
              }
              pack_right(v, 0, size.keys, size.d, size.padded, scratch.v_rows);
              for (i64 query = 0; query < size.queries; query += kQueries) {
                const i64 n = query + kQueries < size.queries ? kQueries : size.queries - query;
                forward_queries<T>(args, size, scratch, sample, head, query, n);
              }
            });
}

}  // namespace

template <>
i64 workspace_bytes(const AttentionArgs& args) {
  const Sizes size(args);
  i64 floats = 0;
  with_factors(args.q.dtype, [&]<class T>(T) { floats = Scratch<T>(size, nullptr).floats; });
  return slots_for(units_of(size), size) * floats * static_cast<i64>(sizeof(float));
}

template <>
void run(const AttentionArgs& args, void* workspace) {
  with_factors(args.q.dtype, [&]<class T>(T) { forward<T>(args, workspace); });
}

}  // namespace tessera::cpu::TESSERA_ISA

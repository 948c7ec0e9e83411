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
    carver.take(s.key_words(), k_columns);
    carver.take(s.value_words(), v_rows);
    carver.take(kQueries * s.padded, q);
    carver.take(kDepth<T> == 1 ? 0 : kQueries * kBlock / kDepth<T>, weights);
    carver.take(kQueries * kBlock, scores);
    carver.take(kQueries * s.padded_v, out);
    carver.take(kQueries * kLanes, sums);
    floats = carver.used();
  }
};

/// Turns the scores of one query and one block into probabilities relative to the maximum so far,
/// and brings what the query accumulated to that maximum. The first `vectors` vectors are computed,
/// and of those the keys of `seen` are visible. Scores are multiplied by `factor` first, unless
/// their queries were.
template <class T, Hides kHides, bool kScaled>
[[gnu::always_inline]] inline void softmax_row(float* scores,
                                               float factor,
                                               int vectors,
                                               KeyRange seen,
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
    s = visible<kHides>(s, seen, v * kLanes, broadcast(kMinusInfinity));
    top = maximum(s, top);
  }
  const float now = largest(top);
  const float base = now == kMinusInfinity ? 0.0F : now;  // no key seen so far: all stay zero
  F total = {};
  for (int v = 0; v < vectors; ++v) {
    F p = exp2_as<T>(load(scores + v * kLanes) - base);
    p = visible<kHides>(p, seen, v * kLanes, F{});
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
                     const Sight& sight,
                     const Scratch<T>& scratch,
                     i64 sample,
                     i64 head,
                     i64 first,
                     i64 count) {
  const AttentionSpec& spec = args.spec;
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
  __builtin_memset(scratch.out, 0, sizeof(float) * static_cast<std::size_t>(count * size.padded_v));
  __builtin_memset(scratch.sums, 0, sizeof(float) * kQueries * kLanes);

  const Seen seen = sight.seen(first, count);
  for (i64 key = seen.first_block(); key < seen.some.end; key += kBlock) {
    // Keys of this block up to the last that any of the queries sees.
    const i64 depth = seen.some.end - key < kBlock ? seen.some.end - key : kBlock;
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
    with_hidden(seen, key, [&](auto hides) {
      for (i64 row = 0; row < count; ++row) {
        float* scores = scratch.scores + row * kBlock;
        softmax_row<T, hides(), kScaled>(scores,
                                         factor,
                                         hides() == Hides::none ? kBlockVectors : vectors,
                                         seen_from(key, sight.keys(first + row)),
                                         maxima[row],
                                         scratch.sums + row * kLanes,
                                         scratch.out + row * size.padded_v,
                                         size.padded_v);
        if (spec.dropout > 0) {
          const u32* drawn = words.make(first + row, key, depth);
          for (i64 j = 0; j < columns; j += kLanes) {
            store(scores + j, load(scores + j) * keeper.factor(drawn + j));
          }
        }
      }
    });
    block_product(rows_of_scores<T>(scratch.scores, count, columns, scratch.weights),
                  scratch.v_rows + key / kDepth<T> * size.padded_v,
                  size.padded_v,
                  scratch.out,
                  size.padded_v,
                  count,
                  size.padded_v,
                  steps_of<T>(depth),
                  true);
  }

  const auto result = head_of<T>(args.out, sample, head);
  float* lse = args.lse.as<float>() + (sample * size.heads + head) * size.queries + first;
  for (i64 row = 0; row < count; ++row) {
    const float total = sum(load(scratch.sums + row * kLanes));
    const float inverse = total == 0.0F ? 0.0F : 1.0F / total;
    const float* from = scratch.out + row * size.padded_v;
    T* to = result[first + row];
    for_vectors(size.dv, [=](i64 j, auto n) { store(to + j, load(from + j) * inverse, n); });
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
              const Sight sight(args, size, sample);
              const KeyRange all = sight.blocks();
              for (i64 key = all.begin; key < all.end; key += kBlock) {
                const i64 n = key + kBlock < all.end ? kBlock : all.end - key;
                pack_columns(k, key, n, size.d, scratch.k_columns + key * size.padded);
              }
              if (all.begin < all.end) {
                pack_right(v,
                           all.begin,
                           all.end - all.begin,
                           size.dv,
                           size.padded_v,
                           scratch.v_rows + all.begin / kDepth<T> * size.padded_v);
              }
              for (i64 query = 0; query < size.queries; query += kQueries) {
                const i64 n = query + kQueries < size.queries ? kQueries : size.queries - query;
                forward_queries<T>(args, size, sight, scratch, sample, head, query, n);
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

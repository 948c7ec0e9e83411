#include "simd/attention_blocks.hpp"
#include "simd/kernels_of_isa.hpp"
#include "tessera/parallel_for.hpp"

// With P the probabilities (made again from lse), M the dropout factors and D = rows of grad · out
// summed: dV += (P M)ᵀ grad; dS = scale · P (M (grad Vᵀ) - D); dQ += dS K; dK += dSᵀ Q. One unit is
// one sample and one key head with all its query heads, so that every sum has one order.
namespace tessera::cpu::TESSERA_ISA {
namespace {

/// Scratch of one thread.
template <class T>
struct Scratch {
  Word<T>*k_columns, *v_columns, *k_rows;           // of all keys
  Word<T>*q, *q_rows, *grad, *grad_rows, *weights;  // of a block of queries
  float *k_grad, *v_grad, *q_grad, *scores, *score_grad;
  i64 floats;
  Scratch(const Sizes& s, float* base) {
    Carver carver(base);
    for (Word<T>** part : {&k_columns, &v_columns, &k_rows}) carver.take(s.key_words(), *part);
    for (float** part : {&k_grad, &v_grad}) carver.take(s.key_words(), *part);
    for (Word<T>** part : {&q, &grad}) carver.take(kQueries * s.padded, *part);
    // Floats serve as left and as right factors; pairs are packed for either.
    constexpr i64 kPairs = kDepth<T> == 1 ? 0 : 1;
    for (Word<T>** part : {&q_rows, &grad_rows}) carver.take(kPairs * kQueries * s.padded, *part);
    carver.take(kPairs * kQueries * kBlock, weights);
    carver.take(kQueries * s.padded, q_grad);
    for (float** part : {&scores, &score_grad}) carver.take(kQueries * kBlock, *part);
    if constexpr (kPairs == 0) {
      q_rows = q;
      grad_rows = grad;
    }
    floats = carver.used();
  }
};

/// Per-row constants of the step from scores to their gradients.
struct RowTerms {
  float scale2;  // of scores, in units of log 2
  float lse2;    // +infinity where no key is seen: all probabilities 0
  float dot;     // D
  float scale;
};

/// scores -> P M; score_grad (grad Vᵀ) -> dS. words: nullptr without dropout.
template <class T, bool kMasked>
[[gnu::always_inline]] inline void gradient_row(float* scores,
                                                float* score_grad,
                                                int vectors,
                                                i64 seen,
                                                const RowTerms& row,
                                                const u32* words,
                                                const Keeper& keeper) {
  for (int v = 0; v < vectors; ++v) {
    float* s = scores + v * kLanes;
    float* g = score_grad + v * kLanes;
    F p = exp2_as<T>(load(s) * row.scale2 - row.lse2);
    if (kMasked) p = keep(p, seen - v * kLanes);
    F dp = load(g);
    if (words != nullptr) {
      const F factor = keeper.factor(words + v * kLanes);
      store(s, p * factor);
      dp *= factor;
    } else {
      store(s, p);
    }
    F ds = p * (dp - row.dot) * row.scale;
    if (kMasked) ds = keep(ds, seen - v * kLanes);
    store(g, ds);
  }
}

template <class T>
void backward_queries(const AttentionBackwardArgs& args,
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
  const auto grad = head_of<const T>(args.grad, sample, head);
  const auto out = head_of<const T>(args.out, sample, head);
  const float* lse =
      args.lse.as<const float>() + (sample * size.heads + head) * size.queries + first;
  const auto q = head_of<const T>(args.q, sample, head);
  pack_left(q, first, count, size.d, size.padded, scratch.q, 1.0F);
  pack_left(grad, first, count, size.d, size.padded, scratch.grad, 1.0F);
  if constexpr (kDepth < T >> 1) {
    pack_right(q, first, count, size.d, size.padded, scratch.q_rows);
    pack_right(grad, first, count, size.d, size.padded, scratch.grad_rows);
  }
  RowTerms rows[kQueries];
  for (i64 row = 0; row < count; ++row) {
    const T *g = grad[first + row], *o = out[first + row];
    F dot = {};
    for_vectors(size.d, [&](i64 j, auto n) { dot += load(g + j, n) * load(o + j, n); });
    rows[row] = {
        static_cast<float>(spec.scale * kLog2E),
        lse[row] == kMinusInfinity ? -kMinusInfinity : static_cast<float>(lse[row] * kLog2E),
        sum(dot),
        static_cast<float>(spec.scale)};
  }
  __builtin_memset(
      scratch.q_grad, 0, sizeof(float) * static_cast<std::size_t>(count * size.padded));

  const i64 seen_by_last = sight.visible(first + count - 1);
  for (i64 key = 0; key < seen_by_last; key += kBlock) {
    // Keys of this block that any of the queries sees.
    const i64 n = seen_by_last - key < kBlock ? seen_by_last - key : kBlock;
    const i64 columns = round_up(n, kColumnUnit);
    const int vectors = static_cast<int>(columns / kLanes);
    const i64 at = key * size.padded;
    block_product(Left<false, Word<T>>{scratch.q, size.padded},
                  scratch.k_columns + at,
                  kBlock,
                  scratch.scores,
                  kBlock,
                  count,
                  columns,
                  steps_of<T>(size.d),
                  false);
    block_product(Left<false, Word<T>>{scratch.grad, size.padded},
                  scratch.v_columns + at,
                  kBlock,
                  scratch.score_grad,
                  kBlock,
                  count,
                  columns,
                  steps_of<T>(size.d),
                  false);
    const bool masked = sight.visible(first) < key + kBlock;
    for (i64 row = 0; row < count; ++row) {
      float* scores = scratch.scores + row * kBlock;
      float* score_grad = scratch.score_grad + row * kBlock;
      const u32* drawn = spec.dropout > 0 ? words.make(first + row, key, n) : nullptr;
      if (masked) {
        const i64 seen = sight.visible(first + row) - key;
        gradient_row<T, true>(scores, score_grad, vectors, seen, rows[row], drawn, keeper);
      } else {
        gradient_row<T, false>(scores, score_grad, kBlockVectors, kBlock, rows[row], drawn, keeper);
      }
    }
    block_product(columns_of_scores<T>(scratch.scores, count, columns, scratch.weights),
                  scratch.grad_rows,
                  size.padded,
                  scratch.v_grad + at,
                  size.padded,
                  n,
                  size.padded,
                  steps_of<T>(count),
                  true);
    block_product(columns_of_scores<T>(scratch.score_grad, count, columns, scratch.weights),
                  scratch.q_rows,
                  size.padded,
                  scratch.k_grad + at,
                  size.padded,
                  n,
                  size.padded,
                  steps_of<T>(count),
                  true);
    block_product(rows_of_scores<T>(scratch.score_grad, count, columns, scratch.weights),
                  scratch.k_rows + key / kDepth<T> * size.padded,
                  size.padded,
                  scratch.q_grad,
                  size.padded,
                  count,
                  size.padded,
                  steps_of<T>(n),
                  true);
  }
  const auto q_grad = head_of<T>(args.q_grad, sample, head);
  for (i64 row = 0; row < count; ++row) {
    const float* from = scratch.q_grad + row * size.padded;
    T* to = q_grad[first + row];
    for_vectors(size.d, [=](i64 j, auto c) { store(to + j, load(from + j), c); });
  }
}

template <class T>
void backward_unit(const AttentionBackwardArgs& args,
                   const Sizes& size,
                   const Scratch<T>& scratch,
                   i64 sample,
                   i64 kv_head) {
  const auto k = head_of<const T>(args.k, sample, kv_head),
             v = head_of<const T>(args.v, sample, kv_head);
  for (i64 key = 0; key < size.keys; key += kBlock) {
    const i64 n = key + kBlock < size.keys ? kBlock : size.keys - key;
    pack_columns(k, key, n, size.d, scratch.k_columns + key * size.padded);
    pack_columns(v, key, n, size.d, scratch.v_columns + key * size.padded);
  }
  pack_right(k, 0, size.keys, size.d, size.padded, scratch.k_rows);
  const std::size_t bytes = sizeof(float) * static_cast<std::size_t>(size.key_words());
  __builtin_memset(scratch.k_grad, 0, bytes);
  __builtin_memset(scratch.v_grad, 0, bytes);

  const i64 group = size.heads / size.kv_heads;
  for (i64 head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    for (i64 query = 0; query < size.queries; query += kQueries) {
      const i64 n = query + kQueries < size.queries ? kQueries : size.queries - query;
      backward_queries<T>(args, size, scratch, sample, head, query, n);
    }
  }
  const auto k_grad = head_of<T>(args.k_grad, sample, kv_head);
  const auto v_grad = head_of<T>(args.v_grad, sample, kv_head);
  for (i64 row = 0; row < size.keys; ++row) {
    const i64 at = row * size.padded;
    for_vectors(size.d, [&](i64 j, auto count) {
      store(k_grad[row] + j, load(scratch.k_grad + at + j), count);
      store(v_grad[row] + j, load(scratch.v_grad + at + j), count);
    });
  }
}

i64 units_of(const Sizes& size) { return size.batch * size.kv_heads; }

template <class T>
void backward(const AttentionBackwardArgs& args, void* workspace) {
  const Sizes size(args);
  for_units(units_of(size),
            size,
            static_cast<float*>(workspace),
            Scratch<T>(size, nullptr).floats,
            [&](i64 unit, float* base) {
              const i64 sample = unit / size.kv_heads, kv_head = unit % size.kv_heads;
              backward_unit<T>(args, size, Scratch<T>(size, base), sample, kv_head);
            });
}

}  // namespace

template <>
i64 workspace_bytes(const AttentionBackwardArgs& args) {
  const Sizes size(args);
  i64 floats = 0;
  with_factors(args.q.dtype, [&]<class T>(T) { floats = Scratch<T>(size, nullptr).floats; });
  return slots_for(units_of(size), size) * floats * static_cast<i64>(sizeof(float));
}

template <>
void run(const AttentionBackwardArgs& args, void* workspace) {
  with_factors(args.q.dtype, [&]<class T>(T) { backward<T>(args, workspace); });
}

}  // namespace tessera::cpu::TESSERA_ISA

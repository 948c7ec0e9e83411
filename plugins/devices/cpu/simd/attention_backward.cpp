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
    for (Word<T>** part : {&k_columns, &k_rows}) carver.take(s.key_words(), *part);
    carver.take(s.value_words(), v_columns);
    carver.take(s.key_words(), k_grad);
    carver.take(s.value_words(), v_grad);
    carver.take(kQueries * s.padded, q);
    carver.take(kQueries * s.padded_v, grad);
    // Floats serve as left and as right factors; pairs are packed for either.
    constexpr i64 kPairs = kDepth<T> == 1 ? 0 : 1;
    carver.take(kPairs * kQueries * s.padded, q_rows);
    carver.take(kPairs * kQueries * s.padded_v, grad_rows);
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
template <class T, Hides kHides>
[[gnu::always_inline]] inline void gradient_row(float* scores,
                                                float* score_grad,
                                                int vectors,
                                                KeyRange seen,
                                                const RowTerms& row,
                                                const u32* words,
                                                const Keeper& keeper) {
  for (int v = 0; v < vectors; ++v) {
    float* s = scores + v * kLanes;
    float* g = score_grad + v * kLanes;
    F p = exp2_as<T>(load(s) * row.scale2 - row.lse2);
    p = visible<kHides>(p, seen, v * kLanes, F{});
    F dp = load(g);
    if (words != nullptr) {
      const F factor = keeper.factor(words + v * kLanes);
      store(s, p * factor);
      dp *= factor;
    } else {
      store(s, p);
    }
    store(g, visible<kHides>(p * (dp - row.dot) * row.scale, seen, v * kLanes, F{}));
  }
}

template <class T>
void backward_queries(const AttentionBackwardArgs& args,
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
  const auto grad = head_of<const T>(args.grad, sample, head);
  const auto out = head_of<const T>(args.out, sample, head);
  const float* lse =
      args.lse.as<const float>() + (sample * size.heads + head) * size.queries + first;
  const auto q = head_of<const T>(args.q, sample, head);
  pack_left(q, first, count, size.d, size.padded, scratch.q, 1.0F);
  pack_left(grad, first, count, size.dv, size.padded_v, scratch.grad, 1.0F);
  if constexpr (kDepth < T >> 1) {
    pack_right(q, first, count, size.d, size.padded, scratch.q_rows);
    pack_right(grad, first, count, size.dv, size.padded_v, scratch.grad_rows);
  }
  RowTerms rows[kQueries];
  for (i64 row = 0; row < count; ++row) {
    const T *g = grad[first + row], *o = out[first + row];
    F dot = {};
    for_vectors(size.dv, [&](i64 j, auto n) { dot += load(g + j, n) * load(o + j, n); });
    rows[row] = {
        static_cast<float>(spec.scale * kLog2E),
        lse[row] == kMinusInfinity ? -kMinusInfinity : static_cast<float>(lse[row] * kLog2E),
        sum(dot),
        static_cast<float>(spec.scale)};
  }
  __builtin_memset(
      scratch.q_grad, 0, sizeof(float) * static_cast<std::size_t>(count * size.padded));

  const Seen seen = sight.seen(first, count);
  for (i64 key = seen.first_block(); key < seen.some.end; key += kBlock) {
    // Keys of this block up to the last that any of the queries sees.
    const i64 n = seen.some.end - key < kBlock ? seen.some.end - key : kBlock;
    const i64 columns = round_up(n, kColumnUnit);
    const int vectors = static_cast<int>(columns / kLanes);
    const i64 at = key * size.padded, at_v = key * size.padded_v;
    block_product(Left<false, Word<T>>{scratch.q, size.padded},
                  scratch.k_columns + at,
                  kBlock,
                  scratch.scores,
                  kBlock,
                  count,
                  columns,
                  steps_of<T>(size.d),
                  false);
    block_product(Left<false, Word<T>>{scratch.grad, size.padded_v},
                  scratch.v_columns + at_v,
                  kBlock,
                  scratch.score_grad,
                  kBlock,
                  count,
                  columns,
                  steps_of<T>(size.dv),
                  false);
    with_hidden(seen, key, [&](auto hides) {
      for (i64 row = 0; row < count; ++row) {
        gradient_row<T, hides()>(scratch.scores + row * kBlock,
                                 scratch.score_grad + row * kBlock,
                                 hides() == Hides::none ? kBlockVectors : vectors,
                                 seen_from(key, sight.keys(first + row)),
                                 rows[row],
                                 spec.dropout > 0 ? words.make(first + row, key, n) : nullptr,
                                 keeper);
      }
    });
    block_product(columns_of_scores<T>(scratch.scores, count, columns, scratch.weights),
                  scratch.grad_rows,
                  size.padded_v,
                  scratch.v_grad + at_v,
                  size.padded_v,
                  n,
                  size.padded_v,
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

/// Rounds sums [keys, padded] of one head.
template <class T>
void store_rows(const TensorArg& arg, i64 sample, i64 head, const float* sums, i64 padded) {
  const auto to = head_of<T>(arg, sample, head);
  for (i64 row = 0; row < arg.shape[1]; ++row) {
    for_vectors(arg.shape[3], [&](i64 j, auto count) {
      store(to[row] + j, load(sums + row * padded + j), count);
    });
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
  const Sight sight(args, size, sample);
  const KeyRange all = sight.blocks();
  for (i64 key = all.begin; key < all.end; key += kBlock) {
    const i64 n = key + kBlock < all.end ? kBlock : all.end - key;
    pack_columns(k, key, n, size.d, scratch.k_columns + key * size.padded);
    pack_columns(v, key, n, size.dv, scratch.v_columns + key * size.padded_v);
  }
  if (all.begin < all.end) {
    pack_right(k,
               all.begin,
               all.end - all.begin,
               size.d,
               size.padded,
               scratch.k_rows + all.begin / kDepth<T> * size.padded);
  }
  const auto clear = [](float* sums, i64 words) {
    __builtin_memset(sums, 0, sizeof(float) * static_cast<std::size_t>(words));
  };
  clear(scratch.k_grad, size.key_words());
  clear(scratch.v_grad, size.value_words());

  const i64 group = size.heads / size.kv_heads;
  for (i64 head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    for (i64 query = 0; query < size.queries; query += kQueries) {
      const i64 n = query + kQueries < size.queries ? kQueries : size.queries - query;
      backward_queries<T>(args, size, sight, scratch, sample, head, query, n);
    }
  }
  store_rows<T>(args.k_grad, sample, kv_head, scratch.k_grad, size.padded);
  store_rows<T>(args.v_grad, sample, kv_head, scratch.v_grad, size.padded_v);
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

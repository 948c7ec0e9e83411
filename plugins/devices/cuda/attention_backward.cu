// Gradients of attention in two passes: of the queries, and of keys and values. Each block adds
// what is its own, in order, so no sum depends on which block comes first. With probabilities p =
// e^(score - lse), kept or dropped by m (0 or 1 / (1 - dropout)), and delta_i = grad_i · out_i:
// v_grad_j = Σ_i p m grad_i, dot_grad = scale · p (m (grad_i · v_j) - delta_i),
// q_grad_i = Σ_j dot_grad k_j, k_grad_j = Σ_i dot_grad q_i.
#include "attention_on_tensor_cores.hpp"
#include "attention_tiles.hpp"
#include "kernels.hpp"

namespace tessera::cuda {
namespace {

using namespace attention;

/// Not more than registers hold: a thread has 4 rows of doubles, or of heads over 64 features. In
/// FP32 up to 128 features fit the 99 KiB of a block of capability 8.6, 8.9 or 12.x.
template <class V, int kFeatures>
using BackwardTiles = Tiles<V,
                            kFeatures,
                            sizeof(V) == 4 && kFeatures <= 64 ? 64 : 32,
                            sizeof(V) == 4 && kFeatures <= 64 ? 64 : 32>;

/// In the first pass own are q and grad, others k and v. In the second it is the other way round.
template <class V, int kFeatures>
struct alignas(16) BackwardMemory {
  using T = BackwardTiles<V, kFeatures>;
  typename T::Own own[2];
  typename T::Others others[2];
  typename T::Weights weights;
};
static_assert(sizeof(BackwardMemory<float, 64>) <= 99 * 1024);
static_assert(sizeof(BackwardMemory<float, 128>) <= 99 * 1024);

/// Blocks that a processor of 227 KiB holds.
template <class T, int kFeatures>
constexpr int kBlocks = sizeof(Compute<T>) == 4 && kFeatures <= 128 ? 2 : 1;

/// A block has kRows queries of one head.
template <class T, int kFeatures>
__global__ void __launch_bounds__(kThreads, kBlocks<T, kFeatures>)
    queries_backward(Inputs<T> in, Positions<T> q_grad, Compute<T>* deltas) {
  using V = Compute<T>;
  using Tile = BackwardTiles<V, kFeatures>;
  auto& memory = shared<BackwardMemory<V, kFeatures>>();
  const Call& call = in.call;
  const HeadTile block(call.samples, call.heads);
  const i64 first = block.last_first() * Tile::kRows, sample = block.sample, head = block.head;
  const i64 kv_head = head / (call.heads / call.kv_heads);
  const T* keys = in.k.of(sample, kv_head);
  const T* values = in.v.of(sample, kv_head);
  const i64 last = first + Tile::kRows < call.queries ? first + Tile::kRows : call.queries;
  const Seen seen = call.seen(sample, first, last);
  const auto scale = static_cast<V>(call.spec.scale);
  const auto kept_factor = static_cast<V>(call.kept_factor);

  Tile::load_own(memory.own[0], in.q, in.q.of(sample, head), first, call.queries, call.features);
  Tile::load_own(
      memory.own[1], in.grad, in.grad.of(sample, head), first, call.queries, call.value_features);
  __syncthreads();
  typename Tile::Sums sums;
  V lse[Tile::kRowsEach], delta[Tile::kRowsEach];
  TESSERA_UNROLL for (int i = 0; i < Tile::kRowsEach; ++i) {
    TESSERA_UNROLL for (int c = 0; c < Tile::kSumsEach; ++c) sums[i][c] = 0;
    const i64 query = first + row(i);
    const bool inside = query < call.queries;
    const T* out = in.out.of(sample, head) + query * in.out.position;
    V product = 0;
    for (int f = column_lane(); inside && f < call.value_features; f += kColumnLanes) {
      product += memory.own[1][row(i) * Tile::kStride + f] * widen(out[f]);
    }
    delta[i] = row_sum(product);
    const i64 at = (sample * call.heads + head) * call.queries + query;
    lse[i] = inside ? in.lse[at] : V(0);
    if (inside && column_lane() == 0) deltas[at] = delta[i];
  }
  for (i64 key = seen.some.begin / Tile::kColumns * Tile::kColumns; key < seen.some.end;
       key += Tile::kColumns) {
    __syncthreads();
    Tile::load_others(memory.others[0], in.k, keys, key, seen.some.end, call.features);
    Tile::load_others(memory.others[1], in.v, values, key, seen.some.end, call.value_features);
    __syncthreads();
    typename Tile::Scores scores, grads;
    Tile::multiply(scores, memory.own[0], memory.others[0], call.features);
    Tile::multiply(grads, memory.own[1], memory.others[1], call.value_features);
    const Visible visible(call, sample, first, key);
    TESSERA_UNROLL for (int i = 0; i < Tile::kRowsEach; ++i) {
      if (call.drops() && first + row(i) < call.queries) {
        Kept kept(call, sample, head, first + row(i));
        TESSERA_UNROLL for (int j = 0; j < Tile::kColumnsEach; ++j) {
          grads[i][j] *= kept(key + Tile::column(j)) ? kept_factor : V(0);
        }
      }
      TESSERA_UNROLL for (int j = 0; j < Tile::kColumnsEach; ++j) {
        const V p = exponential(scores[i][j] * scale - lse[i]);
        const V dot_grad = scale * p * (grads[i][j] - delta[i]);
        scores[i][j] = visible(row(i), Tile::column(j)) ? dot_grad : V(0);
      }
    }
    Tile::store(memory.weights, scores);
    const bool all = !seen.hides(key, key + Tile::kColumns);
    Tile::add_products(sums, memory.weights, memory.others[0], all, visible);
  }
  TESSERA_UNROLL for (int i = 0; i < Tile::kRowsEach; ++i) {
    const i64 query = first + row(i);
    if (query >= call.queries) continue;
    T* to = q_grad.of(sample, head) + query * q_grad.position;
    Tile::store_row(to, sums[i], call.features, q_grad.aligned);
  }
}

/// A block has kRows keys of one head of k and v. The first ones, which most queries see, are
/// started first.
template <class T, int kFeatures>
__global__ void __launch_bounds__(kThreads, kBlocks<T, kFeatures>) keys_backward(
    Inputs<T> in, Positions<T> k_grad, Positions<T> v_grad, const Compute<T>* deltas) {
  using V = Compute<T>;
  using Tile = BackwardTiles<V, kFeatures>;
  auto& memory = shared<BackwardMemory<V, kFeatures>>();
  const Call& call = in.call;
  const HeadTile block(call.samples, call.kv_heads);
  const i64 first = block.tile * Tile::kRows, sample = block.sample, kv_head = block.head;
  const i64 group = call.heads / call.kv_heads;
  const auto scale = static_cast<V>(call.spec.scale);
  const auto kept_factor = static_cast<V>(call.kept_factor);
  const i64 last = first + Tile::kRows < call.keys ? first + Tile::kRows : call.keys;
  const KeyRange queries_here = call.queries_of(first, last);

  Tile::load_own(memory.own[0], in.k, in.k.of(sample, kv_head), first, call.keys, call.features);
  Tile::load_own(
      memory.own[1], in.v, in.v.of(sample, kv_head), first, call.keys, call.value_features);
  typename Tile::Sums k_sums, v_sums;
  TESSERA_UNROLL for (int i = 0; i < Tile::kRowsEach; ++i) {
    TESSERA_UNROLL for (int c = 0; c < Tile::kSumsEach; ++c) k_sums[i][c] = v_sums[i][c] = 0;
  }
  for (i64 head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    const T* queries = in.q.of(sample, head);
    const T* out_grads = in.grad.of(sample, head);
    const i64 statistics = (sample * call.heads + head) * call.queries;
    for (i64 query = queries_here.begin / Tile::kColumns * Tile::kColumns; query < queries_here.end;
         query += Tile::kColumns) {
      const i64 end = query + Tile::kColumns < call.queries ? query + Tile::kColumns : call.queries;
      const Seen seen = call.seen(sample, query, end);
      if (seen.some.begin >= last || seen.some.end <= first) continue;
      __syncthreads();
      Tile::load_others(memory.others[0], in.q, queries, query, call.queries, call.features);
      Tile::load_others(
          memory.others[1], in.grad, out_grads, query, call.queries, call.value_features);
      __syncthreads();
      typename Tile::Scores scores, grads;
      Tile::multiply(scores, memory.own[0], memory.others[0], call.features);
      Tile::multiply(grads, memory.own[1], memory.others[1], call.value_features);
      const Visible visible(call, sample, query, first);
      const auto sees = [&](int r, int column) { return visible(column, r); };
      const bool all = seen.all.begin <= first && seen.all.end >= last;
      TESSERA_UNROLL for (int j = 0; j < Tile::kColumnsEach; ++j) {
        const i64 i = query + Tile::column(j);
        const bool inside = i < call.queries;
        const V lse = inside ? in.lse[statistics + i] : V(0);
        const V delta = inside ? deltas[statistics + i] : V(0);
        Kept kept(call, sample, head, inside ? i : 0);
        TESSERA_UNROLL for (int r = 0; r < Tile::kRowsEach; ++r) {
          const bool seen = inside && visible(Tile::column(j), row(r));
          const V p = exponential(scores[r][j] * scale - lse);
          const V factor = !call.drops() || kept(first + row(r)) ? kept_factor : V(0);
          const V dot_grad = scale * p * (factor * grads[r][j] - delta);
          scores[r][j] = seen ? p * factor : V(0);
          grads[r][j] = seen ? dot_grad : V(0);
        }
      }
      Tile::store(memory.weights, scores);
      Tile::add_products(v_sums, memory.weights, memory.others[1], all, sees);
      Tile::store(memory.weights, grads);
      Tile::add_products(k_sums, memory.weights, memory.others[0], all, sees);
    }
  }
  TESSERA_UNROLL for (int i = 0; i < Tile::kRowsEach; ++i) {
    const i64 key = first + row(i);
    if (key >= call.keys) continue;
    Tile::store_row(k_grad.of(sample, kv_head) + key * k_grad.position,
                    k_sums[i],
                    call.features,
                    k_grad.aligned);
    Tile::store_row(v_grad.of(sample, kv_head) + key * v_grad.position,
                    v_sums[i],
                    call.value_features,
                    v_grad.aligned);
  }
}

}  // namespace

/// delta [samples, heads, queries]: the first pass leaves it to the second.
template <>
i64 Workspace<AttentionBackwardArgs>::bytes(const AttentionBackwardArgs& args) {
  require_features(args);
  return args.lse.elements() * dtype_size(args.lse.dtype);
}

template <>
void run(const AttentionBackwardArgs& args, void* workspace, cudaStream_t stream) {
  if (args.q.shape[3] == 0) return;
  if (dtype_size(args.q.dtype) == 2) {
    return run_on_tensor_cores(args, static_cast<float*>(workspace), stream);
  }
  with_wide(args.q.dtype, [&]<class T>(T) {
    const Inputs<T> in(args);
    with_features<T>(in.call, [&]<int kFeatures>(std::integral_constant<int, kFeatures>) {
      using V = Compute<T>;
      using Tile = BackwardTiles<V, kFeatures>;
      const LaunchShape shape{.threads = kThreads,
                              .shared_bytes = sizeof(BackwardMemory<V, kFeatures>)};
      LaunchShape of_queries = shape, of_keys = shape;
      of_queries.blocks =
          blocks_for(in.call.queries, Tile::kRows) * in.call.samples * in.call.heads;
      of_keys.blocks = blocks_for(in.call.keys, Tile::kRows) * in.call.samples * in.call.kv_heads;
      auto* deltas = static_cast<V*>(workspace);
      launch(queries_backward<T, kFeatures>,
             of_queries,
             stream,
             in,
             Positions<T>(args.q_grad),
             deltas);
      launch(keys_backward<T, kFeatures>,
             of_keys,
             stream,
             in,
             Positions<T>(args.k_grad),
             Positions<T>(args.v_grad),
             static_cast<const V*>(deltas));
    });
  });
}

}  // namespace tessera::cuda

// Attention in one pass over the keys, with the online softmax of Milakov and Gimelshein (2018) as
// in FlashAttention-2 (Dao 2023).
#include "attention_on_tensor_cores.hpp"
#include "attention_tiles.hpp"
#include "kernels.hpp"

namespace tessera::cuda {
namespace {

using namespace attention;

template <class V, int kFeatures>
using ForwardTiles =
    Tiles<V, kFeatures, sizeof(V) == 4 && kFeatures <= 128 ? 64 : 32, sizeof(V) == 4 ? 64 : 32>;

template <class V, int kFeatures>
struct alignas(16) ForwardMemory {
  using T = ForwardTiles<V, kFeatures>;
  typename T::Own queries;
  typename T::Others others;  // keys, then values
  typename T::Weights weights;
};

/// A block has kRows queries of one head. The last ones, which see most keys, are started first.
template <class T, int kFeatures>
__global__ void __launch_bounds__(kThreads, sizeof(Compute<T>) == 4 && kFeatures <= 64 ? 3 : 1)
    forward(Call call,
            Positions<const T> q,
            Positions<const T> k,
            Positions<const T> v,
            Positions<T> out,
            Compute<T>* lse) {
  using V = Compute<T>;
  using Tile = ForwardTiles<V, kFeatures>;
  auto& memory = shared<ForwardMemory<V, kFeatures>>();
  const HeadTile block(call.samples, call.heads);
  const i64 first = block.last_first() * Tile::kRows, sample = block.sample, head = block.head;
  const i64 kv_head = head / (call.heads / call.kv_heads);
  const T* keys = k.of(sample, kv_head);
  const T* values = v.of(sample, kv_head);
  const i64 last = first + Tile::kRows < call.queries ? first + Tile::kRows : call.queries;
  const Seen seen = call.seen(sample, first, last);
  const auto scale = static_cast<V>(call.spec.scale);
  const auto kept_factor = static_cast<V>(call.kept_factor);

  Tile::load_own(memory.queries, q, q.of(sample, head), first, call.queries, call.features);
  typename Tile::Sums sums;
  V largest[Tile::kRowsEach], total[Tile::kRowsEach];
  TESSERA_UNROLL for (int i = 0; i < Tile::kRowsEach; ++i) {
    largest[i] = -std::numeric_limits<V>::infinity();
    total[i] = 0;
    TESSERA_UNROLL for (int c = 0; c < Tile::kSumsEach; ++c) sums[i][c] = 0;
  }
  for (i64 key = seen.some.begin / Tile::kColumns * Tile::kColumns; key < seen.some.end;
       key += Tile::kColumns) {
    __syncthreads();
    Tile::load_others(memory.others, k, keys, key, seen.some.end, call.features);
    __syncthreads();
    typename Tile::Scores scores;
    Tile::multiply(scores, memory.queries, memory.others, call.features);
    const Visible visible(call, sample, first, key);
    TESSERA_UNROLL for (int i = 0; i < Tile::kRowsEach; ++i) {
      V most = largest[i];
      TESSERA_UNROLL for (int j = 0; j < Tile::kColumnsEach; ++j) {
        scores[i][j] = visible(row(i), Tile::column(j)) ? scores[i][j] * scale
                                                        : -std::numeric_limits<V>::infinity();
        most = larger(most, scores[i][j]);
      }
      most = row_max(most);
      // No key seen so far: not e^(-inf - -inf).
      const V shift = most == -std::numeric_limits<V>::infinity() ? V(0) : most;
      const V shrinks = exponential(largest[i] - shift);
      largest[i] = most;
      V sum = 0;
      TESSERA_UNROLL for (int j = 0; j < Tile::kColumnsEach; ++j) {
        scores[i][j] = exponential(scores[i][j] - shift);
        sum += scores[i][j];
      }
      total[i] = total[i] * shrinks + row_sum(sum);
      TESSERA_UNROLL for (int c = 0; c < Tile::kSumsEach; ++c) sums[i][c] *= shrinks;
      if (call.drops() && first + row(i) < call.queries) {
        Kept kept(call, sample, head, first + row(i));
        TESSERA_UNROLL for (int j = 0; j < Tile::kColumnsEach; ++j) {
          scores[i][j] *= kept(key + Tile::column(j)) ? kept_factor : V(0);
        }
      }
    }
    Tile::store(memory.weights, scores);
    __syncthreads();
    Tile::load_others(memory.others, v, values, key, seen.some.end, call.value_features);
    __syncthreads();
    const bool all = !seen.hides(key, key + Tile::kColumns);
    Tile::add_products(sums, memory.weights, memory.others, all, visible);
  }
  TESSERA_UNROLL for (int i = 0; i < Tile::kRowsEach; ++i) {
    const i64 query = first + row(i);
    if (query >= call.queries) continue;
    const KeyRange range = call.keys_of(sample, query);
    const bool sees_any = range.begin < range.end;
    const V factor = sees_any ? 1 / total[i] : V(0);
    TESSERA_UNROLL for (int c = 0; c < Tile::kSumsEach; ++c) sums[i][c] *= factor;
    T* to = out.of(sample, head) + query * out.position;
    Tile::store_row(to, sums[i], call.value_features, out.aligned);
    if (column_lane() == 0) {
      lse[(sample * call.heads + head) * call.queries + query] =
          sees_any ? largest[i] + log(total[i]) : -std::numeric_limits<V>::infinity();
    }
  }
}

/// With l = log(e^a + e^b), out = out · e^(a - l) + part · e^(b - l). A warp takes a row.
template <class T>
__global__ void merge(Positions<const T> part,
                      const Compute<T>* part_lse,
                      Positions<T> out,
                      Compute<T>* lse,
                      i64 rows,
                      i64 heads,
                      i64 queries,
                      int features) {
  using V = Compute<T>;
  const i64 n = (static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x) / kWarp;
  if (n >= rows) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const V a = lse[n], b = part_lse[n], largest = larger(a, b);
  if (largest == -std::numeric_limits<V>::infinity()) return;
  const V both = largest + log(exp(a - largest) + exp(b - largest));
  const V old_factor = exp(a - both), new_factor = exp(b - both);
  const i64 sample = n / (heads * queries), head = n / queries % heads, query = n % queries;
  T* to = out.of(sample, head) + query * out.position;
  const T* from = part.of(sample, head) + query * part.position;
  for (int f = lane; f < features; f += kWarp) {
    to[f] = narrow<T>(widen(to[f]) * old_factor + widen(from[f]) * new_factor);
  }
  __syncwarp();  // all lanes have read it
  if (lane == 0) lse[n] = both;
}

}  // namespace

template <>
i64 Workspace<AttentionArgs>::bytes(const AttentionArgs& args) {
  require_features(args);
  return 0;
}

template <>
void run(const AttentionArgs& args, void*, cudaStream_t stream) {
  if (args.q.elements() == 0) return;
  if (dtype_size(args.q.dtype) == 2) return run_on_tensor_cores(args, stream);
  const Call call(args);
  with_wide(args.q.dtype, [&]<class T>(T) {
    with_features<T>(call, [&]<int kFeatures>(std::integral_constant<int, kFeatures>) {
      using V = Compute<T>;
      const i64 tiles = blocks_for(call.queries, ForwardTiles<V, kFeatures>::kRows);
      launch(forward<T, kFeatures>,
             {.blocks = tiles * call.samples * call.heads,
              .threads = kThreads,
              .shared_bytes = sizeof(ForwardMemory<V, kFeatures>)},
             stream,
             call,
             Positions<const T>(args.q),
             Positions<const T>(args.k),
             Positions<const T>(args.v),
             Positions<T>(args.out),
             args.lse.as<V>());
    });
  });
}

template <>
void run(const AttentionMergeArgs& args, void*, cudaStream_t stream) {
  const i64* shape = args.out.shape;
  const i64 rows = shape[0] * shape[1] * shape[2];
  with_floating(args.kName, args.out.dtype, [&]<class T>(T) {
    launch(merge<T>,
           {.blocks = blocks_for(rows * kWarp, 256)},
           stream,
           Positions<const T>(args.part_out),
           args.part_lse.as<const Compute<T>>(),
           Positions<T>(args.out),
           args.lse.as<Compute<T>>(),
           rows,
           shape[2],
           shape[1],
           static_cast<int>(shape[3]));
  });
}

}  // namespace tessera::cuda

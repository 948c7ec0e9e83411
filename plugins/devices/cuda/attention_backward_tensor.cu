// Gradients of attention on tensor cores, for 16-bit types: the two passes of attention_backward.cu
// in the shape of FlashAttention-2 (Dao 2023, §3.1). The next tile is on its way while the last one
// is multiplied.
#include "attention_hidden.hpp"
#include "attention_on_tensor_cores.hpp"

namespace tessera::cuda::attention {
namespace {

/// Tiles of a pass: kOwn rows that stay, of two tensors, and two stages of kOthers rows that pass.
template <class T, int kFeatures, int kOwn_, int kOthers_>
struct alignas(16) BackwardTensorMemory {
  using Tiles = TensorTiles<T, kFeatures>;
  static constexpr int kOwn = kOwn_, kOthers = kOthers_;
  typename Tiles::template Tile<kOwn> own[2];
  typename Tiles::template Tile<kOthers> others[2][2];  // [stage][tensor]
};

constexpr int kQueries = 64;  // of a block of the first pass: 16 of each warp
template <class T, int kFeatures>
using QueriesMemory = BackwardTensorMemory<T, kFeatures, kQueries, kFeatures <= 128 ? 32 : 16>;

/// Heads of over 128 features: two warps have the same keys, and half of the features each, since
/// registers do not hold both gradients of 16 keys.
template <int kFeatures>
constexpr int kShares = kFeatures <= 128 ? 1 : 2;
template <class T, int kFeatures>
using KeysMemory = BackwardTensorMemory<T, kFeatures, 64 / kShares<kFeatures>, 32>;

/// grad · out of the warp's rows, for the two rows of the lane.
template <class T, int kStride>
__device__ __forceinline__ void row_products(float (&deltas)[2],
                                             const T* grads,
                                             const Positions<const T>& out,
                                             const T* head,
                                             i64 first,
                                             i64 end,
                                             int features) {
  constexpr int kEach = kPack<T>;
  TESSERA_UNROLL for (int i = 0; i < 2; ++i) {
    const int r = row<Order::plain>(2 * i);
    const bool inside = first + r < end;
    const T* from = head + (first + r) * out.position;
    float sum = 0;
    for (int f = fragment_column() / 2 * kEach; inside && f < features; f += 4 * kEach) {
      float eight[kEach];
      cuda::load(eight, from + f, features - f, out.aligned);
      const auto grad = *reinterpret_cast<const Pack<T>*>(grads + r * kStride + f);
      TESSERA_UNROLL for (int e = 0; e < kEach; ++e) sum += eight[e] * widen(grad.of[e]);
    }
    deltas[i] = quad_sum(sum);
  }
}

/// A block has kQueries queries of one head.
template <class T, int kFeatures>
__global__ void __launch_bounds__(kThreads, kFeatures <= 64 ? 3 : 2)
    queries_on_tensor_cores(Inputs<T> in, Positions<T> q_grad, float* deltas) {
  using Tiles = TensorTiles<T, kFeatures>;
  using Memory = QueriesMemory<T, kFeatures>;
  constexpr int kKeys = Memory::kOthers;
  auto& memory = shared<Memory>();
  const Call& call = in.call;
  const HeadTile block(call.samples, call.heads);
  const i64 first = block.last_first() * kQueries, sample = block.sample, head = block.head;
  const i64 kv_head = head / (call.heads / call.kv_heads);
  const i64 last = first + kQueries < call.queries ? first + kQueries : call.queries;
  const Seen seen = call.seen(sample, first, last);
  const i64 first_key = seen.some.begin / kKeys * kKeys;
  const int features = padded(call.features), value_features = padded(call.value_features);
  const float scale = static_cast<float>(call.spec.scale) * kLog2e<float>;
  const auto kept_factor = static_cast<float>(call.drops() ? call.kept_factor : 1);
  const bool busy = first + tensor_tiles::warp() * kPart < call.queries;
  const int own = tensor_tiles::warp() * kPart * Tiles::kStride;

  const auto fetch_keys = [&](i64 key, int stage) {
    if (key < seen.some.end) {
      Tiles::template fetch<Order::fours, kKeys>(memory.others[stage][0],
                                                 in.k,
                                                 in.k.of(sample, kv_head),
                                                 key,
                                                 seen.some.end,
                                                 call.features);
      Tiles::template fetch<Order::fours, kKeys>(memory.others[stage][1],
                                                 in.v,
                                                 in.v.of(sample, kv_head),
                                                 key,
                                                 seen.some.end,
                                                 call.value_features);
    }
    commit_copies();
  };
  Tiles::template fetch<Order::plain, kQueries>(
      memory.own[0], in.q, in.q.of(sample, head), first, call.queries, call.features);
  Tiles::template fetch<Order::plain, kQueries>(
      memory.own[1], in.grad, in.grad.of(sample, head), first, call.queries, call.value_features);
  commit_copies();
  fetch_keys(first_key, 0);
  wait_for_copies<1>();
  __syncthreads();
  float lse[2] = {}, delta[2];
  row_products<T, Tiles::kStride>(delta,
                                  memory.own[1],
                                  in.out,
                                  in.out.of(sample, head),
                                  first,
                                  call.queries,
                                  call.value_features);
  TESSERA_UNROLL for (int i = 0; i < 2; ++i) {
    const i64 query = first + row<Order::plain>(2 * i);
    if (query >= call.queries) continue;
    const i64 at = (sample * call.heads + head) * call.queries + query;
    lse[i] = in.lse[at] * kLog2e<float>;
    if (fragment_column() == 0) deltas[at] = delta[i];
  }
  Fragments<kFeatures> sums = {};
  int stage = 0;
  for (i64 key = first_key; key < seen.some.end; key += kKeys, stage ^= 1) {
    wait_for_copies<0>();
    __syncthreads();  // this stage is here, and the other one has been read
    fetch_keys(key + kKeys, stage ^ 1);
    T* keys = memory.others[stage][0];
    Fragments<kKeys> scores = {}, grads = {};
    const bool some_hidden = key < seen.all.begin || key + kKeys > seen.all.end;
    const u32 sees =
        some_hidden ? sees_of_queries<kKeys / kPart>(call, sample, first, key) : ~u32{0};
    if (busy) {
      const u32 keeps = keeps_of_queries<kKeys / kPart>(call, sample, head, first, key);
      Tiles::multiply(scores, memory.own[0] + own, keys, features);
      Tiles::multiply(grads, memory.own[1] + own, memory.others[stage][1], value_features);
      TESSERA_UNROLL for (int i = 0; i < 2; ++i) {
        TESSERA_UNROLL for (int p = 0; p < kKeys / kPart; ++p) {
          TESSERA_UNROLL for (int e = 0; e < 4; ++e) {
            float& score = scores[p][e / 2][2 * i + e % 2];
            float& grad = grads[p][e / 2][2 * i + e % 2];
            const u32 bit = keep_bit(p, e / 2, 2 * i + e % 2);
            grad = (keeps & bit) != 0 ? grad * kept_factor : 0;
            const float probability = exp2f(score * scale - lse[i]);
            score = (sees & bit) != 0 ? probability * (grad - delta[i]) : 0;
          }
        }
      }
    }
    if (seen.hides(key, key + kKeys)) {
      keep_from_hidden<T, kFeatures, kKeys>(keys, sums, 0, features, [&](int p, int h, int c) {
        return (sees & keep_bit(p, h, c)) != 0;
      });
    }
    if (busy) Tiles::add_products(sums, scores, keys, features);
  }
  wait_for_copies<0>();
  if (!busy) return;
  TESSERA_UNROLL for (int n = 0; n < kFeatures / kPart; ++n) {
    TESSERA_UNROLL for (int c = 0; c < 8; ++c) {
      sums[n][c / 4][c % 4] *= static_cast<float>(call.spec.scale);
    }
  }
  Tiles::template store<Order::plain>(memory.own[0] + own,
                                      sums,
                                      q_grad,
                                      q_grad.of(sample, head),
                                      first + tensor_tiles::warp() * kPart,
                                      call.queries,
                                      call.features);
}

/// A block has kOwn keys of one head of k and v. The first ones, which most queries see, are
/// started first.
template <class T, int kFeatures>
__global__ void __launch_bounds__(kThreads, 2) keys_on_tensor_cores(Inputs<T> in,
                                                                    Positions<T> k_grad,
                                                                    Positions<T> v_grad,
                                                                    const float* deltas) {
  using Tiles = TensorTiles<T, kFeatures>;
  using Memory = KeysMemory<T, kFeatures>;
  constexpr int kQueries = Memory::kOthers, kShared = kShares<kFeatures>;
  constexpr int kSums = kFeatures / kShared / kPart;
  auto& memory = shared<Memory>();
  const Call& call = in.call;
  const HeadTile block(call.samples, call.kv_heads);
  const i64 first = block.tile * Memory::kOwn, sample = block.sample, kv_head = block.head;
  const i64 group = call.heads / call.kv_heads;
  const int features = padded(call.features), value_features = padded(call.value_features);
  const float scale = static_cast<float>(call.spec.scale) * kLog2e<float>;
  const auto kept_factor = static_cast<float>(call.drops() ? call.kept_factor : 1);
  // The warp's keys within the block, and the first feature of its sums.
  const int part = tensor_tiles::warp() / kShared,
            at = tensor_tiles::warp() % kShared * kSums * kPart;
  const bool busy = first + part * kPart < call.keys && (at < features || at < value_features);
  const int own = part * kPart * Tiles::kStride;
  const i64 last = first + Memory::kOwn < call.keys ? first + Memory::kOwn : call.keys;
  const KeyRange queries_here = call.queries_of(first, last);
  const i64 first_query = queries_here.begin / kQueries * kQueries,
            heads_end = (kv_head + 1) * group;
  const auto seen_by = [&](i64 query) {
    return call.seen(
        sample, query, query + kQueries < call.queries ? query + kQueries : call.queries);
  };
  // The next tile of queries, of this head or a later one, of which some see these keys.
  const auto advance = [&](i64& head, i64& query) {
    while (head < heads_end) {
      if (query >= queries_here.end) {
        query = first_query;
        if (++head == heads_end || first_query >= queries_here.end) {
          head = heads_end;
          return;
        }
      }
      const Seen seen = seen_by(query);
      if (seen.some.begin < last && seen.some.end > first) return;
      query += kQueries;
    }
  };

  const auto fetch_queries = [&](i64 head, i64 query, int stage) {
    Tiles::template fetch<Order::plain, kQueries>(
        memory.others[stage][0], in.q, in.q.of(sample, head), query, call.queries, call.features);
    Tiles::template fetch<Order::plain, kQueries>(memory.others[stage][1],
                                                  in.grad,
                                                  in.grad.of(sample, head),
                                                  query,
                                                  call.queries,
                                                  call.value_features);
  };
  Tiles::template fetch<Order::pairs, Memory::kOwn>(
      memory.own[0], in.k, in.k.of(sample, kv_head), first, call.keys, call.features);
  Tiles::template fetch<Order::pairs, Memory::kOwn>(
      memory.own[1], in.v, in.v.of(sample, kv_head), first, call.keys, call.value_features);
  i64 head = kv_head * group, query = first_query;
  advance(head, query);
  if (head < heads_end) fetch_queries(head, query, 0);
  commit_copies();
  float k_sums[kSums][2][4] = {}, v_sums[kSums][2][4] = {};
  int stage = 0;
  while (head < heads_end) {
    wait_for_copies<0>();
    __syncthreads();  // this stage is here, and the other one has been read
    const i64 of_head = head, of_query = query;
    query += kQueries;
    advance(head, query);
    if (head < heads_end) fetch_queries(head, query, stage ^ 1);
    commit_copies();
    T* queries = memory.others[stage][0];
    T* out_grads = memory.others[stage][1];
    stage ^= 1;
    Fragments<kQueries> scores = {}, grads = {};
    const i64 own_key = first + part * kPart + fragment_row() * 2;
    const KeyRange all = seen_by(of_query).all;
    const bool some_hidden =
        all.begin > first || all.end < first + Memory::kOwn || of_query + kQueries > call.queries;
    const u32 visible =
        some_hidden ? sees_of_keys<kQueries / kPart>(call, sample, of_query, own_key) : ~u32{0};
    const auto sees = [&](int p, int h, int c) { return (visible & keep_bit(p, h, c)) != 0; };
    if (busy) {
      const u32 keeps = keeps_of_keys<kQueries / kPart>(call, sample, of_head, of_query, own_key);
      Tiles::multiply(scores, memory.own[0] + own, queries, features);
      Tiles::multiply(grads, memory.own[1] + own, out_grads, value_features);
      const i64 statistics = (sample * call.heads + of_head) * call.queries;
      TESSERA_UNROLL for (int p = 0; p < kQueries / kPart; ++p) {
        TESSERA_UNROLL for (int e = 0; e < 4; ++e) {
          const int h = e / 2;
          const i64 i = of_query + column<Order::plain>(p, h, e % 2);
          const bool inside = i < call.queries;
          const float lse = inside ? in.lse[statistics + i] * kLog2e<float> : 0;
          const float delta = inside ? deltas[statistics + i] : 0;
          TESSERA_UNROLL for (int r = 0; r < 2; ++r) {
            const int c = 2 * r + e % 2;
            float& score = scores[p][h][c];
            float& grad = grads[p][h][c];
            const bool seen = sees(p, h, c);
            const bool kept = (keeps & keep_bit(p, h, c)) != 0;
            const float probability = exp2f(score * scale - lse);
            score = seen && kept ? probability : 0;
            grad = seen ? probability * ((kept ? grad * kept_factor : 0) - delta) : 0;
          }
        }
      }
    }
    if (all.begin > first || all.end < last) {
      keep_from_hidden<T, kFeatures, kQueries>(out_grads, v_sums, at, value_features, sees);
      keep_from_hidden<T, kFeatures, kQueries>(queries, k_sums, at, features, sees);
    }
    if (busy) {
      Tiles::add_products(v_sums, scores, out_grads + at, value_features - at);
      Tiles::add_products(k_sums, grads, queries + at, features - at);
    }
  }
  wait_for_copies<0>();
  __syncthreads();  // the warps that share these keys have read them
  if (!busy) return;
  TESSERA_UNROLL for (int n = 0; n < kSums; ++n) {
    TESSERA_UNROLL for (int c = 0; c < 8; ++c) {
      k_sums[n][c / 4][c % 4] *= static_cast<float>(call.spec.scale);
      v_sums[n][c / 4][c % 4] *= kept_factor;
    }
  }
  const auto store = [&](T* tile, const auto& sums, const Positions<T>& to, int width) {
    Tiles::template store<Order::pairs>(tile + own + at,
                                        sums,
                                        to,
                                        to.of(sample, kv_head) + at,
                                        first + part * kPart,
                                        call.keys,
                                        width - at);
  };
  store(memory.own[0], k_sums, k_grad, call.features);
  store(memory.own[1], v_sums, v_grad, call.value_features);
}

}  // namespace

void run_on_tensor_cores(const AttentionBackwardArgs& args, float* deltas, cudaStream_t stream) {
  with_narrow(args.q.dtype, [&]<class T>(T) {
    const Inputs<T> in(args);
    const Call& call = in.call;
    with_features<T>(call, [&]<int kFeatures>(std::integral_constant<int, kFeatures>) {
      launch(queries_on_tensor_cores<T, kFeatures>,
             {.blocks = blocks_for(call.queries, kQueries) * call.samples * call.heads,
              .threads = kThreads,
              .shared_bytes = sizeof(QueriesMemory<T, kFeatures>)},
             stream,
             in,
             Positions<T>(args.q_grad),
             deltas);
      using OfKeys = KeysMemory<T, kFeatures>;
      launch(keys_on_tensor_cores<T, kFeatures>,
             {.blocks = blocks_for(call.keys, OfKeys::kOwn) * call.samples * call.kv_heads,
              .threads = kThreads,
              .shared_bytes = sizeof(OfKeys)},
             stream,
             in,
             Positions<T>(args.k_grad),
             Positions<T>(args.v_grad),
             static_cast<const float*>(deltas));
    });
  });
}

}  // namespace tessera::cuda::attention

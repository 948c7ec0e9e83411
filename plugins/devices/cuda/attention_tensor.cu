// Attention on tensor cores, for 16-bit types: FlashAttention-2 (Dao 2023, §3.1). While scores are
// computed the tile's values are on their way, and while those are multiplied the next keys.
#include "attention_hidden.hpp"
#include "attention_on_tensor_cores.hpp"

namespace tessera::cuda::attention {
namespace {

constexpr int kQueries = 64;  // of a block: 16 of each warp

template <class T, int kFeatures>
struct alignas(16) ForwardTensorMemory {
  using Tiles = TensorTiles<T, kFeatures>;
  static constexpr int kKeys = kFeatures <= 128 ? 64 : 32;
  typename Tiles::template Tile<kQueries> queries;
  typename Tiles::template Tile<kKeys> keys, values;
};

/// A block has kQueries queries of one head. The last ones, which see most keys, are started first.
template <class T, int kFeatures>
__global__ void __launch_bounds__(kThreads, kFeatures <= 64 ? 3 : 2)
    forward_on_tensor_cores(Call call,
                            Positions<const T> q,
                            Positions<const T> k,
                            Positions<const T> v,
                            Positions<T> out,
                            float* lse) {
  using Tiles = TensorTiles<T, kFeatures>;
  using Memory = ForwardTensorMemory<T, kFeatures>;
  constexpr int kKeys = Memory::kKeys;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  auto& memory = shared<Memory>();
  const HeadTile block(call.samples, call.heads);
  const i64 first = block.last_first() * kQueries, sample = block.sample, head = block.head;
  const i64 kv_head = head / (call.heads / call.kv_heads);
  const T* keys = k.of(sample, kv_head);
  const T* values = v.of(sample, kv_head);
  const i64 last = first + kQueries < call.queries ? first + kQueries : call.queries;
  const Seen seen = call.seen(sample, first, last);
  const i64 first_key = seen.some.begin / kKeys * kKeys;
  const int features = padded(call.features), value_features = padded(call.value_features);
  const float scale = static_cast<float>(call.spec.scale) * kLog2e<float>;
  // A warp without queries only helps to copy.
  const bool busy = first + tensor_tiles::warp() * kPart < call.queries;
  T* own = memory.queries + tensor_tiles::warp() * kPart * Tiles::kStride;

  Fragments<kFeatures> sums = {};
  float largest[2] = {-kInfinity, -kInfinity}, total[2] = {};
  if (first_key < seen.some.end) {
    Tiles::template fetch<Order::plain, kQueries>(
        memory.queries, q, q.of(sample, head), first, call.queries, call.features);
    Tiles::template fetch<Order::fours, kKeys>(
        memory.keys, k, keys, first_key, seen.some.end, call.features);
  }
  commit_copies();
  for (i64 key = first_key; key < seen.some.end; key += kKeys) {
    wait_for_copies<0>();
    __syncthreads();  // the keys are here, and the last values have been read
    Tiles::template fetch<Order::fours, kKeys>(
        memory.values, v, values, key, seen.some.end, call.value_features);
    commit_copies();
    Fragments<kKeys> scores = {};
    const bool some_hidden = key < seen.all.begin || key + kKeys > seen.all.end;
    const u32 sees =
        some_hidden ? sees_of_queries<kKeys / kPart>(call, sample, first, key) : ~u32{0};
    if (busy) {
      Tiles::multiply(scores, own, memory.keys, features);
      TESSERA_UNROLL for (int i = 0; i < 2; ++i) {
        float most = largest[i];
        const auto for_scores = [&](auto f) {
          TESSERA_UNROLL for (int p = 0; p < kKeys / kPart; ++p) {
            TESSERA_UNROLL for (int e = 0; e < 4; ++e) {
              f(scores[p][e / 2][2 * i + e % 2], keep_bit(p, e / 2, 2 * i + e % 2));
            }
          }
        };
        for_scores([&](float& score, u32 bit) {
          score *= scale;
          if (some_hidden && (sees & bit) == 0) score = -kInfinity;
          most = larger(most, score);
        });
        most = quad_max(most);
        const float shift = most == -kInfinity ? 0 : most;  // else e^(-inf - -inf)
        const float shrinks = exp2f(largest[i] - shift);
        largest[i] = most;
        float sum = 0;
        for_scores([&](float& score, u32) {
          score = exp2f(score - shift);
          sum += score;
        });
        total[i] = total[i] * shrinks + quad_sum(sum);
        TESSERA_UNROLL for (int n = 0; n < kFeatures / kPart; ++n) {
          TESSERA_UNROLL for (int e = 0; e < 4; ++e) sums[n][e / 2][2 * i + e % 2] *= shrinks;
        }
      }
      const u32 keeps = keeps_of_queries<kKeys / kPart>(call, sample, head, first, key);
      TESSERA_UNROLL for (int p = 0; p < kKeys / kPart; ++p) {
        TESSERA_UNROLL for (int c = 0; c < 8; ++c) {
          if ((keeps & keep_bit(p, c / 4, c % 4)) == 0) scores[p][c / 4][c % 4] = 0;
        }
      }
    }
    wait_for_copies<0>();
    __syncthreads();  // the values are here, and the keys have been read
    if (key + kKeys < seen.some.end) {
      Tiles::template fetch<Order::fours, kKeys>(
          memory.keys, k, keys, key + kKeys, seen.some.end, call.features);
    }
    commit_copies();
    if (seen.hides(key, key + kKeys)) {
      keep_from_hidden<T, kFeatures, kKeys>(
          memory.values, sums, 0, value_features, [&](int p, int h, int c) {
            return (sees & keep_bit(p, h, c)) != 0;
          });
    }
    if (busy) Tiles::add_products(sums, scores, memory.values, value_features);
  }
  if (!busy) return;
  const float kept_factor = call.drops() ? static_cast<float>(call.kept_factor) : 1;
  TESSERA_UNROLL for (int i = 0; i < 2; ++i) {
    const int local = row<Order::plain>(2 * i);
    const i64 query = first + local;
    const KeyRange range = query < call.queries ? call.keys_of(sample, query) : KeyRange{0, 0};
    const bool sees_any = range.begin < range.end;
    const float factor = kept_factor / total[i];
    TESSERA_UNROLL for (int n = 0; n < kFeatures / kPart; ++n) {
      TESSERA_UNROLL for (int e = 0; e < 4; ++e) {
        float& sum = sums[n][e / 2][2 * i + e % 2];
        sum = sees_any ? sum * factor : 0;
      }
    }
    if (query < call.queries && fragment_column() == 0) {
      lse[(sample * call.heads + head) * call.queries + query] =
          sees_any ? largest[i] * (1 / kLog2e<float>)+logf(total[i]) : -kInfinity;
    }
  }
  Tiles::template store<Order::plain>(own,
                                      sums,
                                      out,
                                      out.of(sample, head),
                                      first + tensor_tiles::warp() * kPart,
                                      call.queries,
                                      call.value_features);
}

}  // namespace

void run_on_tensor_cores(const AttentionArgs& args, cudaStream_t stream) {
  const Call call(args);
  with_narrow(args.q.dtype, [&]<class T>(T) {
    with_features<T>(call, [&]<int kFeatures>(std::integral_constant<int, kFeatures>) {
      launch(forward_on_tensor_cores<T, kFeatures>,
             {.blocks = blocks_for(call.queries, kQueries) * call.samples * call.heads,
              .threads = kThreads,
              .shared_bytes = sizeof(ForwardTensorMemory<T, kFeatures>)},
             stream,
             call,
             Positions<const T>(args.q),
             Positions<const T>(args.k),
             Positions<const T>(args.v),
             Positions<T>(args.out),
             args.lse.as<float>());
    });
  });
}

}  // namespace tessera::cuda::attention

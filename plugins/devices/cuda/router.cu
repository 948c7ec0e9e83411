// The choice of experts and their weights: topk_experts, router_weights and its gradient.
#include "kernels.hpp"
#include "router.hpp"

namespace tessera::cuda {
namespace {

/// The lane's values that have not been taken: bit i is value 32 i + lane.
__device__ unsigned open_in(i64 begin, i64 end) {
  unsigned open = 0;
  for (int i = 0; i < kWarp; ++i) {
    const i64 at = i * kWarp + lane_of_thread();
    if (at >= begin && at < end) open |= 1U << i;
  }
  return open;
}

/// Takes the largest of the open values, the first of equal ones. There is one.
template <class C>
__device__ int take_largest(const C* values, unsigned& open) {
  constexpr int kNone = 1 << 30;
  C best = -std::numeric_limits<C>::infinity();
  int at = kNone;
  for (int i = 0; i < kWarp && (open >> i) != 0; ++i) {
    if (((open >> i) & 1) == 0) continue;
    const int here = i * kWarp + lane_of_thread();
    if (at == kNone || values[here] > best) {
      best = values[here];
      at = here;
    }
  }
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const C other = __shfl_xor_sync(kAllLanes, best, distance);
    const int there = __shfl_xor_sync(kAllLanes, at, distance);
    if (there != kNone && (at == kNone || other > best || (other == best && there < at))) {
      best = other;
      at = there;
    }
  }
  if (at % kWarp == lane_of_thread()) open &= ~(1U << (at / kWarp));
  return at;
}

template <class T>
struct TopK {
  const T* logits;
  const Compute<T>* bias;  // optional
  i32* experts;
  i64 rows, all;
  RouterSpec spec;
};

/// The experts of the groups that a token may choose from, as open values.
template <class C>
__device__ unsigned allowed(const RouterSpec& spec, i64 all, const C* scores, C* sums) {
  if (spec.groups == 1) return open_in(0, all);
  const i64 length = all / spec.groups;
  for (i64 g = 0; g < spec.groups; ++g) {
    unsigned open = open_in(g * length, (g + 1) * length);
    C sum = 0;
    for (i64 i = 0; i < spec.top_k / spec.group_top_k; ++i)
      sum += scores[take_largest(scores, open)];
    if (lane_of_thread() == 0) sums[g] = sum;
  }
  __syncwarp();
  unsigned groups = open_in(0, spec.groups), experts = 0;
  for (i64 i = 0; i < spec.group_top_k; ++i) {
    const i64 g = take_largest(sums, groups);
    experts |= open_in(g * length, (g + 1) * length);
  }
  return experts;
}

template <class T>
__global__ void topk_experts(TopK<T> of) {
  using C = Compute<T>;
  C* scores = &shared<C>() + warp_of_thread() * 3 * of.all;
  C *logits = scores + of.all, *sums = logits + of.all;
  const RouterScore score = of.spec.score;
  for_rows_of_warp(of.rows, [&](i64 row) {
    const auto logit_of = [&](i64 e, bool&) {
      return static_cast<C>(widen(of.logits[row * of.all + e]));
    };
    // NaN comes last in an order.
    const auto ordered = [](C value) {
      return value != value ? -std::numeric_limits<C>::infinity() : value;
    };
    const bool shares = score == RouterScore::softmax_before;
    const Softmax<C> softmax = shares ? softmax_of<C>(of.all, logit_of) : Softmax<C>{};
    for_lane(of.all, [&](i64 e) {
      bool exists = true;
      const C logit = logit_of(e, exists);
      C value = shares ? softmax(logit) : score_of(score, logit);
      if (of.bias != nullptr) value += of.bias[e];
      scores[e] = ordered(value);
      logits[e] = ordered(logit);
    });
    __syncwarp();
    unsigned open = allowed(of.spec, of.all, scores, sums);
    for (i64 c = 0; c < of.spec.top_k; ++c) {
      const int expert = take_largest(of.bias != nullptr ? scores : logits, open);
      if (lane_of_thread() == 0) of.experts[row * of.spec.top_k + c] = expert;
    }
    __syncwarp();  // before the next row's are written
  });
}

/// A row of logits and its choices.
template <class T>
struct Choices {
  const T* logits;
  const i32* experts;
  i64 all, k;

  __device__ Choices row(i64 number) const {
    return {logits + number * all, experts + number * k, all, k};
  }
  __device__ bool has(i64 c) const { return experts[c] >= 0 && experts[c] < all; }
  __device__ Compute<T> logit(i64 c) const { return widen(logits[experts[c]]); }
  /// The softmax over all experts, or over the chosen ones.
  __device__ Softmax<Compute<T>> softmax(bool over_all) const {
    return softmax_of<Compute<T>>(over_all ? all : k, [&](i64 i, bool& exists) {
      if (over_all) return static_cast<Compute<T>>(widen(logits[i]));
      exists = has(i);
      return exists ? logit(i) : Compute<T>(0);
    });
  }
  /// What scores are divided by.
  __device__ Compute<T> divisor(RouterScore score) const {
    if (k == 1) return 1;
    Compute<T> sum = 0;
    for_lane(k, [&](i64 c) {
      if (has(c)) sum += score_of(score, logit(c));
    });
    return warp_sum(sum) + static_cast<Compute<T>>(kTinyScore);
  }
};

template <class T>
__global__ void router_weights(Choices<T> of, i64 rows, RouterSpec spec, Compute<T>* weights) {
  using C = Compute<T>;
  const C scale = static_cast<C>(spec.scale);
  for_rows_of_warp(rows, [&](i64 row) {
    const Choices<T> choices = of.row(row);
    C* out = weights + row * of.k;
    if (by_softmax(spec.score)) {
      const Softmax<C> softmax = choices.softmax(spec.score == RouterScore::softmax_before);
      for_lane(of.k,
               [&](i64 c) { out[c] = choices.has(c) ? softmax(choices.logit(c)) * scale : C(0); });
    } else {
      const C factor = scale / choices.divisor(spec.score);
      for_lane(of.k, [&](i64 c) {
        out[c] = choices.has(c) ? score_of(spec.score, choices.logit(c)) * factor : C(0);
      });
    }
  });
}

template <class T>
__global__ void router_weights_backward(
    Choices<T> of, i64 rows, RouterSpec spec, const Compute<T>* grad, T* out) {
  using C = Compute<T>;
  const RouterScore score = spec.score;
  const bool before = score == RouterScore::softmax_before;
  C* parts = &shared<C>() + warp_of_thread() * of.k;  // of each choice
  for_rows_of_warp(rows, [&](i64 row) {
    const Choices<T> choices = of.row(row);
    const auto wanted = [&](i64 c) { return static_cast<C>(spec.scale) * grad[row * of.k + c]; };
    const auto mean_of = [&](auto share) {
      C mean = 0;
      for_lane(of.k, [&](i64 c) {
        if (choices.has(c)) mean += wanted(c) * share(c);
      });
      return warp_sum(mean);
    };
    Softmax<C> softmax{};
    C mean = 0;
    if (by_softmax(score)) {
      softmax = choices.softmax(before);
      const auto share = [&](i64 c) { return softmax(choices.logit(c)); };
      mean = mean_of(share);
      for_lane(of.k, [&](i64 c) {
        if (choices.has(c)) parts[c] = share(c) * (before ? wanted(c) : wanted(c) - mean);
      });
    } else {
      const C divisor = choices.divisor(score);
      if (of.k > 1) {
        mean = mean_of([&](i64 c) { return score_of(score, choices.logit(c)) / divisor; });
      }
      for_lane(of.k, [&](i64 c) {
        if (!choices.has(c)) return;
        parts[c] = derivative_of(score, choices.logit(c)) * (wanted(c) - mean) / divisor;
      });
    }
    __syncwarp();
    // An expert's lane adds its choices in order: there may be several.
    for_lane(of.all, [&](i64 e) {
      C sum = before ? -softmax(static_cast<C>(widen(choices.logits[e]))) * mean : C(0);
      for (i64 c = 0; c < of.k; ++c) {
        if (choices.experts[c] == e) sum += parts[c];
      }
      out[row * of.all + e] = narrow<T>(sum);
    });
    __syncwarp();  // before the next row's parts are written
  });
}

template <class T, class Args>
Choices<T> choices_of(const Args& args) {
  return {args.logits.template as<T>(),
          args.experts.template as<i32>(),
          args.logits.shape[1],
          args.experts.shape[1]};
}

template <class T>
i64 bytes_of(i64 values) {
  return values * static_cast<i64>(sizeof(Compute<T>));
}

}  // namespace

template <>
void run(const TopkExpertsArgs& args, void*, cudaStream_t stream) {
  with_floating(args.kName, args.logits.dtype, [&]<class T>(T) {
    const TopK<T> of{.logits = args.logits.as<T>(),
                     .bias = args.bias.as<Compute<T>>(),
                     .experts = args.experts.as<i32>(),
                     .rows = args.logits.shape[0],
                     .all = args.logits.shape[1],
                     .spec = args.spec};
    launch(topk_experts<T>, router_shape(of.rows, bytes_of<T>(3 * of.all)), stream, of);
  });
}

template <>
void run(const RouterWeightsArgs& args, void*, cudaStream_t stream) {
  const i64 rows = args.logits.shape[0];
  with_floating(args.kName, args.logits.dtype, [&]<class T>(T) {
    launch(router_weights<T>,
           router_shape(rows),
           stream,
           choices_of<T>(args),
           rows,
           args.spec,
           args.weights.as<Compute<T>>());
  });
}

template <>
void run(const RouterWeightsBackwardArgs& args, void*, cudaStream_t stream) {
  const i64 rows = args.logits.shape[0];
  with_floating(args.kName, args.logits.dtype, [&]<class T>(T) {
    launch(router_weights_backward<T>,
           router_shape(rows, bytes_of<T>(args.experts.shape[1])),
           stream,
           choices_of<T>(args),
           rows,
           args.spec,
           args.grad.as<Compute<T>>(),
           args.out.as<T>());
  });
}

}  // namespace tessera::cuda

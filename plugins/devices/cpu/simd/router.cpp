#include "simd/router.hpp"
#include "simd/kernels_of_isa.hpp"
#include "simd/rows.hpp"
#include "tessera/parallel_for.hpp"

namespace tessera::cpu::TESSERA_ISA {
namespace {

/// logits become scores.
inline void to_scores(RouterScore score, float* logits, i64 all) {
  if (score == RouterScore::softmax_before) {
    const float share = 1.0F / exponentials(logits, all).sum;
    for (i64 e = 0; e < all; ++e) logits[e] *= share;
  } else if (score == RouterScore::sigmoid) {
    for (i64 e = 0; e < all; e += kLanes) store(logits + e, sigmoid(load(logits + e)));
  } else if (score == RouterScore::sqrt_softplus) {
    for (i64 e = 0; e < all; ++e) logits[e] = root_of(logits[e]);
  }
}

/// The k largest values so far, the largest first; of equal ones the first stays first.
struct Best {
  float values[kRoom];
  i32 places[kRoom];
  i64 size = 0;
  [[gnu::always_inline]] void offer(float value, i64 place, i64 k) {
    if (size == k && !(value > values[k - 1])) return;
    i64 at = size < k ? size++ : k - 1;
    for (; at > 0 && value > values[at - 1]; --at) {
      values[at] = values[at - 1];
      places[at] = places[at - 1];
    }
    values[at] = value;
    places[at] = static_cast<i32>(place);
  }
};

/// Marks the groups that a row may choose from.
inline void choose_groups(const RouterSpec& spec, const float* scores, i64 length, bool* chosen) {
  Best groups;
  for (i64 g = 0; g < spec.groups; ++g) {
    Best best;
    for (i64 e = g * length; e < (g + 1) * length; ++e) {
      best.offer(scores[e], e, spec.top_k / spec.group_top_k);
    }
    float total = 0;
    for (i64 i = 0; i < best.size; ++i) total += best.values[i];
    chosen[g] = false;
    groups.offer(total, g, spec.group_top_k);
  }
  for (i64 i = 0; i < groups.size; ++i) chosen[groups.places[i]] = true;
}

template <class T>
void choose(const TopkExpertsArgs& args) {
  const auto logits = rows_of<const T>(args.logits);
  const auto experts = rows_of<i32>(args.experts);
  const float* bias = args.bias.as<const float>();
  const RouterSpec spec = args.spec;
  parallel_for(logits.n, row_grain(4 * logits.width), [=](i64 begin, i64 end) {
    const i64 all = logits.width, length = all / spec.groups;
    float values[kRoom], scores[kRoom];
    bool chosen[kRoom];
    for (i64 row = begin; row < end; ++row) {
      read_row(logits[row], all, values);
      const float* compared = values;
      if (bias != nullptr || spec.groups > 1) {
        for (i64 e = 0; e < all; e += kLanes) store(scores + e, load(values + e));
        to_scores(spec.score, scores, all);
      }
      if (bias != nullptr) {
        for (i64 e = 0; e < all; ++e) scores[e] += bias[e];
        compared = scores;
      }
      if (spec.groups > 1) choose_groups(spec, scores, length, chosen);
      Best best;
      for (i64 g = 0; g < spec.groups; ++g) {
        if (spec.groups > 1 && !chosen[g]) continue;
        for (i64 e = g * length; e < (g + 1) * length; ++e) best.offer(compared[e], e, spec.top_k);
      }
      for (i64 c = 0; c < spec.top_k; ++c) experts[row][c] = best.places[c];
    }
  });
}

/// The choices of a row that are experts, and their logits.
struct Chosen {
  i32 experts[kRoom];
  i64 choices[kRoom];
  float logits[kRoom];
  i64 size = 0;
  template <class T>
  void read(const i32* row, i64 k, const T* from, i64 all) {
    size = 0;
    for (i64 c = 0; c < k; ++c) {
      if (row[c] < 0 || row[c] >= all) continue;
      experts[size] = row[c];
      choices[size] = c;
      logits[size++] = load_one(from + row[c]);
    }
  }
};

/// The shares of the chosen, by softmax over them or over the whole row, which `powers` then holds
/// times the sum that is returned.
template <class T>
inline float shares_of(RouterScore score,
                       const Chosen& chosen,
                       const T* logits,
                       i64 all,
                       float* powers,
                       float* shares) {
  Softmax found{-kInfinity, 0};
  if (score == RouterScore::softmax_before) {
    read_row(logits, all, powers);
    found = exponentials(powers, all);
    for (i64 i = 0; i < chosen.size; ++i) shares[i] = powers[chosen.experts[i]] / found.sum;
    return found.sum;
  }
  for (i64 i = 0; i < chosen.size; ++i) {
    found.largest = found.largest > chosen.logits[i] ? found.largest : chosen.logits[i];
  }
  for (i64 i = 0; i < chosen.size; ++i) {
    shares[i] = __builtin_expf(chosen.logits[i] - found.largest);
    found.sum += shares[i];
  }
  for (i64 i = 0; i < chosen.size; ++i) shares[i] /= found.sum;
  return found.sum;
}

/// The scores of the chosen, each by itself; returns what they are divided by.
inline float own_scores(RouterScore score, const Chosen& chosen, i64 k, float* scores) {
  float sum = kTiny;
  for (i64 i = 0; i < chosen.size; ++i) {
    scores[i] = own_score(score, chosen.logits[i]);
    sum += scores[i];
  }
  return k > 1 ? sum : 1.0F;
}

template <class T>
void weigh(const RouterWeightsArgs& args) {
  const auto logits = rows_of<const T>(args.logits);
  const auto experts = rows_of<const i32>(args.experts);
  const auto weights = rows_of<float>(args.weights);
  const RouterScore score = args.spec.score;
  const float scale = static_cast<float>(args.spec.scale);
  parallel_for(logits.n, row_grain(4 * logits.width), [=](i64 begin, i64 end) {
    Chosen chosen;
    float powers[kRoom], shares[kRoom];
    for (i64 row = begin; row < end; ++row) {
      chosen.read(experts[row], experts.width, logits[row], logits.width);
      float factor = scale;
      if (by_softmax(score)) {
        shares_of(score, chosen, logits[row], logits.width, powers, shares);
      } else {
        factor /= own_scores(score, chosen, experts.width, shares);
      }
      for (i64 c = 0; c < weights.width; ++c) weights[row][c] = 0;
      for (i64 i = 0; i < chosen.size; ++i) weights[row][chosen.choices[i]] = shares[i] * factor;
    }
  });
}

/// gradient [all] += that of the chosen logits by weights of their own scores.
inline void own_gradient(RouterScore score,
                         const Chosen& chosen,
                         i64 k,
                         const float* wanted,
                         float* scores,
                         float* gradient) {
  const float sum = own_scores(score, chosen, k, scores);
  float mean = 0;
  for (i64 i = 0; k > 1 && i < chosen.size; ++i) mean += wanted[i] * scores[i] / sum;
  for (i64 i = 0; i < chosen.size; ++i) {
    const float rise = rise_of(score, chosen.logits[i]);
    gradient[chosen.experts[i]] += rise * (wanted[i] - mean) / sum;
  }
}

template <class T>
void logits_gradient(const RouterWeightsBackwardArgs& args) {
  const auto logits = rows_of<const T>(args.logits);
  const auto experts = rows_of<const i32>(args.experts);
  const auto grad = rows_of<const float>(args.grad);
  const auto out = rows_of<T>(args.out);
  const RouterScore score = args.spec.score;
  const float scale = static_cast<float>(args.spec.scale);
  parallel_for(logits.n, row_grain(4 * logits.width), [=](i64 begin, i64 end) {
    const i64 all = logits.width;
    Chosen chosen;
    float powers[kRoom], shares[kRoom], wanted[kRoom], gradient[kRoom];
    for (i64 row = begin; row < end; ++row) {
      chosen.read(experts[row], experts.width, logits[row], all);
      for (i64 i = 0; i < chosen.size; ++i) wanted[i] = scale * grad[row][chosen.choices[i]];
      for (i64 e = 0; e < all; ++e) gradient[e] = 0;
      if (by_softmax(score)) {
        const float sum = shares_of(score, chosen, logits[row], all, powers, shares);
        const bool before = score == RouterScore::softmax_before;
        float mean = 0;
        for (i64 i = 0; i < chosen.size; ++i) mean += shares[i] * wanted[i];
        for (i64 e = 0; before && e < all; ++e) gradient[e] = -mean * (powers[e] / sum);
        for (i64 i = 0; i < chosen.size; ++i) {
          gradient[chosen.experts[i]] += shares[i] * (before ? wanted[i] : wanted[i] - mean);
        }
      } else {
        own_gradient(score, chosen, experts.width, wanted, shares, gradient);
      }
      for_vectors(
          all, [=](i64 e, auto count) { store(out[row] + e, load(gradient + e, count), count); });
    }
  });
}

}  // namespace

template <>
void run(const TopkExpertsArgs& args) {
  with_storage(args.logits.dtype, [&]<class T>(T) { choose<T>(args); });
}

template <>
void run(const RouterWeightsArgs& args) {
  with_storage(args.logits.dtype, [&]<class T>(T) { weigh<T>(args); });
}

template <>
void run(const RouterWeightsBackwardArgs& args) {
  with_storage(args.logits.dtype, [&]<class T>(T) { logits_gradient<T>(args); });
}

}  // namespace tessera::cpu::TESSERA_ISA

#pragma once
#include "simd/math.hpp"
#include "simd/storage.hpp"
#include "tessera/ops/router.hpp"

// A row of logits and its scores, for the choice of experts and for auxiliary losses.
namespace tessera::cpu::TESSERA_ISA {
namespace {

constexpr float kTiny = 1e-20F;  // keeps the sum of scores from being 0
constexpr i64 kRoom = RouterSpec::kMaxExperts;
static_assert(kRoom % kLanes == 0);

[[gnu::always_inline]] inline float sigmoid_of(float x) {
  return 1.0F / (1.0F + __builtin_expf(-x));
}

[[gnu::always_inline]] inline float root_of(float x) {
  const float tail = __builtin_log1pf(__builtin_expf(-__builtin_fabsf(x)));
  return __builtin_sqrtf((x > 0 ? x : 0.0F) + tail);
}

/// The score of one logit by sigmoid or sqrt_softplus, and its derivative.
[[gnu::always_inline]] inline float own_score(RouterScore score, float logit) {
  return score == RouterScore::sigmoid ? sigmoid_of(logit) : root_of(logit);
}
[[gnu::always_inline]] inline float rise_of(RouterScore score, float logit) {
  const float s = own_score(score, logit);
  if (score == RouterScore::sigmoid) return s * (1.0F - s);
  return s == 0 ? 0.0F : sigmoid_of(logit) / (2.0F * s);
}

/// A row of logits as floats; -infinity up to the next whole vector.
template <class T>
inline void read_row(const T* from, i64 all, float* to) {
  for (i64 e = 0; e < all; e += kLanes) {
    const i64 count = all - e < kLanes ? all - e : kLanes;
    store(to + e, keep(load(from + e, count), count, broadcast(-kInfinity)));
  }
}

struct Softmax {
  float largest, sum;
};
/// logits become exp(logit - largest).
inline Softmax exponentials(float* logits, i64 all) {
  F best = broadcast(-kInfinity), total = {};
  for (i64 e = 0; e < all; e += kLanes) best = maximum(best, load(logits + e));
  const float most = largest(best);
  for (i64 e = 0; e < all; e += kLanes) {
    const F power = exp(load(logits + e) - most);
    total += power;
    store(logits + e, power);
  }
  return {most, sum(total)};
}

[[gnu::always_inline]] inline bool by_softmax(RouterScore score) {
  return score == RouterScore::softmax || score == RouterScore::softmax_before;
}

}  // namespace
}  // namespace tessera::cpu::TESSERA_ISA

#pragma once
#include "simd/math.hpp"

namespace tessera::cpu::TESSERA_ISA {
namespace {

// Φ(x), the share of the standard normal distribution below x, and its density at x.
struct Normal {
  F share, density;
};

/// Relative errors, measured over |x| <= 13: below 5e-7 where |x| <= 2, 1e-6 where |x| <= 5, 5e-6
/// beyond, where the rounding of x² / 2 counts. 0 where x² / 2 is above 86.6; NaN stays NaN.
[[gnu::always_inline]] inline Normal normal(F x) {
  constexpr float kDensityAtZero = 0.39894228F;  // 1 / sqrt(2π)
  const F size = x < 0.0F ? -x : x;
  const F power = exp(-0.5F * x * x);
  // Φ(-t) = e^(-t²/2) s p(s), s = 1 / (1 + 0.27 t): no cancellation. p interpolates at the
  // Chebyshev nodes of s for t in [0, 13.5]; relative error 3e-8 before rounding.
  const F s = 1.0F / (1.0F + 0.27F * size);
  F p = broadcast(2.89886414e-02F);
  p = p * s - 1.26661245e-01F;
  p = p * s + 1.70233534e-01F;
  p = p * s - 6.98160843e-02F;
  p = p * s + 1.08303254e-01F;
  p = p * s + 7.18243965e-02F;
  p = p * s + 1.01872477e-01F;
  p = p * s + 1.07533847e-01F;
  p = p * s + 1.07721191e-01F;
  const F tail = power * (p * s);
  return {x < 0.0F ? tail : 1.0F - tail, kDensityAtZero * power};
}

[[gnu::always_inline]] inline F gelu_erf_of(F x) { return x * normal(x).share; }

[[gnu::always_inline]] inline F gelu_erf_derivative(F x) {
  const Normal at = normal(x);
  return at.share + x * at.density;
}

}  // namespace
}  // namespace tessera::cpu::TESSERA_ISA

#pragma once
#include "simd/vector.hpp"

namespace tessera::cpu::TESSERA_ISA {
namespace {

constexpr float kInfinity = __builtin_inff();
// Adding it leaves the nearest integer in the low bits of the sum.
constexpr float kRounder = 12582912.0F;  // 1.5 · 2^23

/// The nearest integers n to x, and 2^n, for |x| <= 126.
struct Rounded {
  F n, power;
};
[[gnu::always_inline]] inline Rounded round_to_power(F x) {
  const F shifted = x + kRounder;
  const I bits = (I)shifted << 23;
  return {shifted - kRounder, (F)(bits + (127 << 23))};
}

/// 2^x with a relative error below 2e-7; 0 below x = -125. Meant for x <= 0; capped above 126.
[[gnu::always_inline]] inline F exp2(F x) {
  const F capped = minimum(broadcast(126.0F), maximum(broadcast(-126.0F), x));
  const Rounded whole = round_to_power(capped);
  const F r = capped - whole.n;
  // Interpolates 2^r at the Chebyshev nodes of [-1/2, 1/2]; relative error 3e-9 before rounding.
  F p = broadcast(1.54614447e-4F);
  p = p * r + 1.34004282e-3F;
  p = p * r + 9.61805668e-3F;
  p = p * r + 5.55032723e-2F;
  p = p * r + 2.40226509e-1F;
  p = p * r + 6.93147207e-1F;
  p = p * r + 1.0F;
  return x < -125.0F ? F{} : p * whole.power;
}

/// The same for what is rounded to 16 bits afterwards: relative error below 3e-7, and never below
/// 2^-126. NaN stays NaN.
[[gnu::always_inline]] inline F exp2_coarse(F x) {
  const F capped = minimum(broadcast(126.0F), maximum(broadcast(-126.0F), x));
  const F shifted = capped + kRounder;
  const F r = capped - (shifted - kRounder);
  // Interpolates 2^r at the Chebyshev nodes of [-1/2, 1/2]; relative error 1e-7 before rounding.
  F p = broadcast(1.33908634e-3F);
  p = p * r + 9.67603192e-3F;
  p = p * r + 5.55035711e-2F;
  p = p * r + 2.40221075e-1F;
  p = p * r + 6.93147188e-1F;
  p = p * r + 1.00000008F;
  return (F)((I)p + ((I)shifted << 23));
}

/// e^x with a relative error below 2e-7; 0 below x = -86.6, infinity above 88.7; NaN stays NaN.
[[gnu::always_inline]] inline F exp(F x) {
  // Keeps NaN: both functions return their second operand then.
  const F capped = minimum(broadcast(88.8F), maximum(broadcast(-86.6F), x));
  // Half the power, and twice the result: 2^128 is no float.
  const Rounded whole = round_to_power(capped * 1.44269504F - 1.0F);
  const F n = whole.n + 1.0F;
  const F r = (capped - n * 0.693359375F) + n * 2.12194440e-4F;  // ln 2 in two parts
  // Interpolates e^r at the Chebyshev nodes of [-ln 2 / 2, ln 2 / 2].
  F p = broadcast(1.39411084e-3F);
  p = p * r + 8.37512640e-3F;
  p = p * r + 4.16663529e-2F;
  p = p * r + 1.66664155e-1F;
  p = p * r + 5.00000005e-1F;
  p = p * r + 1.00000004F;
  p = p * r + 1.0F;
  const F y = p * whole.power * 2.0F;
  return x < -86.6F ? F{} : y;
}

/// 1 / (1 + e^-x).
[[gnu::always_inline]] inline F sigmoid(F x) { return 1.0F / (1.0F + exp(-x)); }

}  // namespace
}  // namespace tessera::cpu::TESSERA_ISA

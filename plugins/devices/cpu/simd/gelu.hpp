#pragma once
#include "simd/math.hpp"

namespace tessera::cpu::TESSERA_ISA {
namespace {

// GELU's tanh form is x · sigmoid(2u), u = sqrt(2/π) (x + 0.044715 x³): no cancellation anywhere.
constexpr float kTwoRoot = 1.5957691216F;  // 2 sqrt(2/π)
constexpr float kCubic = 0.044715F;
constexpr float kLog2OfE = 1.4426950409F;

/// sigmoid(2u) for results of 16 bits.
[[gnu::always_inline]] inline F coarse_share(F x) {
  constexpr float kFirst = -kTwoRoot * kLog2OfE, kThird = kFirst * kCubic;
  return 1.0F / (1.0F + exp2_coarse(x * (kThird * x * x + kFirst)));
}

template <class T>
constexpr bool kCoarse = sizeof(T) < sizeof(float);

/// GELU for results that are stored as T.
template <class T>
[[gnu::always_inline]] inline F gelu_of(F x) {
  if constexpr (kCoarse<T>) {
    return x * coarse_share(x);
  } else {
    return x * sigmoid(kTwoRoot * (x + kCubic * x * x * x));
  }
}

template <class T>
[[gnu::always_inline]] inline F gelu_derivative(F x) {
  const F square = x * x;
  F s;
  if constexpr (kCoarse<T>) {
    s = coarse_share(x);
  } else {
    s = sigmoid(kTwoRoot * (x + kCubic * x * square));
  }
  return s + x * s * (1.0F - s) * (kTwoRoot * (1.0F + 3.0F * kCubic * square));
}

}  // namespace
}  // namespace tessera::cpu::TESSERA_ISA

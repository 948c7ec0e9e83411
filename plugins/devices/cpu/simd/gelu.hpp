#pragma once
#include "simd/math.hpp"

namespace tessera::cpu::TESSERA_ISA {
namespace {

// GELU's tanh form is x · sigmoid(2u), u = sqrt(2/π) (x + 0.044715 x³): no cancellation anywhere.
constexpr float kTwoRoot = 1.5957691216F;  // 2 sqrt(2/π)
constexpr float kCubic = 0.044715F;

[[gnu::always_inline]] inline F gelu_of(F x) {
  return x * sigmoid(kTwoRoot * (x + kCubic * x * x * x));
}

[[gnu::always_inline]] inline F gelu_derivative(F x) {
  const F square = x * x;
  const F s = sigmoid(kTwoRoot * (x + kCubic * x * square));
  return s + x * s * (1.0F - s) * (kTwoRoot * (1.0F + 3.0F * kCubic * square));
}

}  // namespace
}  // namespace tessera::cpu::TESSERA_ISA

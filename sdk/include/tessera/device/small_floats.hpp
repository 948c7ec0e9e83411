#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

#include "tessera/types.hpp"

namespace tessera {

/// fp16 as the compiler has it: converts to and from float and double, rounded once.
using Float16 = _Float16;

/// bf16: the upper half of a float, rounded to nearest even.
class BFloat16 {
 public:
  BFloat16() = default;
  explicit BFloat16(float value) {
    const u32 bits = std::bit_cast<u32>(value);
    const u32 rounded = bits + 0x7fff + ((bits >> 16) & 1);
    bits_ = static_cast<std::uint16_t>((value != value ? bits | 0x400000 : rounded) >> 16);
  }
  /// Rounded once: on the way through float, what is cut off sets the last bit.
  explicit BFloat16(double value) : BFloat16(to_odd(value)) {}
  explicit operator float() const { return std::bit_cast<float>(u32{bits_} << 16); }
  explicit operator double() const { return static_cast<float>(*this); }

 private:
  static float to_odd(double value) {
    const float nearest = static_cast<float>(value);
    if (std::isnan(value) || static_cast<double>(nearest) == value) return nearest;
    u32 bits = std::bit_cast<u32>(nearest);
    if (std::abs(static_cast<double>(nearest)) > std::abs(value)) --bits;  // towards zero
    return std::bit_cast<float>(bits | 1U);
  }
  std::uint16_t bits_ = 0;
};

}  // namespace tessera

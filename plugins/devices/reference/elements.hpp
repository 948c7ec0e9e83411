#pragma once
#include <bit>
#include <cmath>
#include <string_view>
#include <type_traits>

#include "tessera/error.hpp"
#include "tessera/tensor.hpp"

namespace tessera::reference {

/// The upper half of a float. Rounded from double once, to nearest even.
class Bf16 {
 public:
  Bf16() = default;
  explicit Bf16(double value) {
    if (std::isfinite(value) && value != 0) {
      // 8 significant bits, fewer below the smallest normal number.
      const double unit = std::ldexp(1.0, std::max(std::ilogb(value), -126) - 7);
      value = std::nearbyint(value / unit) * unit;
    }
    const u32 bits = std::bit_cast<u32>(static_cast<float>(value));
    bits_ = static_cast<std::uint16_t>((bits >> 16) | (std::isnan(value) ? 0x40U : 0U));
  }
  explicit operator double() const { return std::bit_cast<float>(u32{bits_} << 16); }

 private:
  std::uint16_t bits_ = 0;
};
using F16 = _Float16;

/// How many elements of an elementwise operation one thread takes at a time.
constexpr i64 kGrain = 4096;

/// The type of means, maxima and sums of exponentials of T.
template <class T>
using Statistic = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Calls f with a value of the C++ type of a floating dtype: `[&]<class T>(T) { … }`.
template <class F>
void with_floating(std::string_view operation, DType dtype, F&& f) {
  switch (dtype) {
    case DType::fp64:
      return f(double{});
    case DType::fp32:
      return f(float{});
    case DType::bf16:
      return f(Bf16{});
    case DType::fp16:
      return f(F16{});
    default:
      fail("{}: {} is not a floating dtype", operation, dtype_name(dtype));
  }
}

/// The same for every dtype.
template <class F>
void with_any(std::string_view operation, DType dtype, F&& f) {
  switch (dtype) {
    case DType::i64:
      return f(i64{});
    case DType::i32:
      return f(i32{});
    case DType::u8:
      return f(u8{});
    case DType::boolean:
      return f(bool{});
    default:
      return with_floating(operation, dtype, f);
  }
}

/// Calls f with a value of the type in which gradients of T are summed: T, or float where `dtype`
/// is fp32.
template <class T, class F>
void with_accumulator(DType dtype, F&& f) {
  if constexpr (sizeof(T) < sizeof(float)) {
    if (dtype == DType::fp32) return f(float{});
  }
  f(T{});
}

/// Element (i, j) of a matrix whose last dimension has stride 1.
template <class T>
class Matrix {
 public:
  explicit Matrix(const TensorArg& tensor)
      : data_(tensor.as<T>()), stride_(tensor.rank > 1 ? tensor.strides[0] : 0) {}
  T& operator()(i64 i, i64 j) const { return data_[i * stride_ + j]; }

 private:
  T* data_;
  i64 stride_;
};

}  // namespace tessera::reference

#pragma once
#include <string_view>
#include <utility>

#include "tessera/device/small_floats.hpp"
#include "tessera/error.hpp"

namespace tessera {

/// Calls f with a value of the C++ type of a floating dtype: `[&]<class T>(T) { … }`.
template <class F>
void with_floating(std::string_view operation, DType dtype, F&& f) {
  switch (dtype) {
    case DType::fp64:
      return f(double{});
    case DType::fp32:
      return f(float{});
    case DType::fp16:
      return f(Float16{});
    case DType::bf16:
      return f(BFloat16{});
    default:
      fail("{} has no values of {}", operation, dtype_name(dtype));
  }
}

/// The same for every dtype.
template <class F>
void with_type(std::string_view operation, DType dtype, F&& f) {
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
      return with_floating(operation, dtype, std::forward<F>(f));
  }
}

}  // namespace tessera

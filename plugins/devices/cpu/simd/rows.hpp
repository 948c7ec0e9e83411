#pragma once
#include "simd/storage.hpp"

namespace tessera::cpu::TESSERA_ISA {
namespace {

/// A matrix with unit inner stride.
template <class T>
struct Rows {
  T* data = nullptr;
  i64 n = 0, width = 0, stride = 0;
  T* operator[](i64 row) const { return data + row * stride; }
};

template <class T>
Rows<T> rows_of(const TensorArg& arg) {
  return {arg.as<T>(), arg.shape[0], arg.shape[1], arg.strides[0]};
}

/// Rows that make about 16 Ki elements: what a thread must have to be worth waking.
inline i64 row_grain(i64 width) { return 1 + 16384 / (width + 1); }

}  // namespace
}  // namespace tessera::cpu::TESSERA_ISA

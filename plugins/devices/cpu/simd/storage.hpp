#pragma once
#include <cstdint>

#include "simd/vector.hpp"
#include "tessera/tensor.hpp"

// Elements as they lie in memory: float, bf16 or fp16. Kernels are templates of it and compute in
// vectors of float; loads convert, stores round to nearest even.
namespace tessera::cpu::TESSERA_ISA {
namespace {

struct Bf16 {
  std::uint16_t bits;
};
struct Fp16 {
  std::uint16_t bits;
};

#if defined(__AVX512F__)
using Narrow = __m256i;  // kLanes elements of 16 bits
#elif defined(__AVX2__)
using Narrow = __m128i;
#else
using Narrow = u64;
#endif

[[gnu::always_inline]] inline Narrow load_narrow(const void* p, Whole) {
  Narrow v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
[[gnu::always_inline]] inline Narrow load_narrow(const void* p, i64 n) {
#if defined(__AVX512F__)
  return _mm256_maskz_loadu_epi16(static_cast<__mmask16>((1U << n) - 1), p);
#else
  std::uint16_t lanes[kLanes] = {};
  for (i64 i = 0; i < n; ++i) lanes[i] = static_cast<const std::uint16_t*>(p)[i];
  return load_narrow(lanes, Whole{});
#endif
}
[[gnu::always_inline]] inline void store_narrow(void* p, Narrow v, Whole) {
  __builtin_memcpy(p, &v, sizeof v);
}
[[gnu::always_inline]] inline void store_narrow(void* p, Narrow v, i64 n) {
#if defined(__AVX512F__)
  _mm256_mask_storeu_epi16(p, static_cast<__mmask16>((1U << n) - 1), v);
#else
  std::uint16_t lanes[kLanes];
  __builtin_memcpy(lanes, &v, sizeof v);
  for (i64 i = 0; i < n; ++i) static_cast<std::uint16_t*>(p)[i] = lanes[i];
#endif
}

[[gnu::always_inline]] inline F widen(Narrow v, Bf16) {
#if defined(__AVX512F__)
  return (F)_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16);
#elif defined(__AVX2__)
  return (F)_mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16);
#else
  return (F)_mm_unpacklo_epi16(_mm_setzero_si128(), _mm_cvtsi64_si128(static_cast<i64>(v)));
#endif
}
/// Rounds to nearest even; NaN stays NaN. The instruction of AVX-512 BF16 takes subnormal numbers
/// for zero.
[[gnu::always_inline]] inline Narrow round_to(F v, Bf16) {
#if defined(__AVX512BF16__)
  return (Narrow)_mm512_cvtneps_pbh(v);
#else
  const U bits = (U)v;
  const U rounded = bits + 0x7FFF + ((bits >> 16) & 1);
  const I high = (I)(v == v ? rounded : bits | 0x400000) >> 16;
#if defined(__AVX512F__)
  return _mm512_cvtepi32_epi16((__m512i)high);
#elif defined(__AVX2__)
  const __m256i packed = _mm256_packs_epi32((__m256i)high, (__m256i)high);
  return _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
#else
  return static_cast<u64>(_mm_cvtsi128_si64(_mm_packs_epi32((__m128i)high, (__m128i)high)));
#endif
#endif
}

[[gnu::always_inline]] inline F widen(Narrow v, Fp16) {
#if defined(__AVX512F__)
  return _mm512_cvtph_ps(v);
#elif defined(__AVX2__)
  return _mm256_cvtph_ps(v);
#else
  _Float16 lanes[kLanes];
  __builtin_memcpy(lanes, &v, sizeof v);
  F wide = {};
  for (int i = 0; i < kLanes; ++i) wide[i] = static_cast<float>(lanes[i]);
  return wide;
#endif
}
[[gnu::always_inline]] inline Narrow round_to(F v, Fp16) {
#if defined(__AVX512F__)
  return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(__AVX2__)
  return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
  _Float16 lanes[kLanes];
  for (int i = 0; i < kLanes; ++i) lanes[i] = static_cast<_Float16>(v[i]);
  return load_narrow(lanes, Whole{});
#endif
}

template <class Count = Whole>
[[gnu::always_inline]] inline F load(const Bf16* p, Count n = {}) {
  return widen(load_narrow(p, n), Bf16{});
}
template <class Count = Whole>
[[gnu::always_inline]] inline F load(const Fp16* p, Count n = {}) {
  return widen(load_narrow(p, n), Fp16{});
}
template <class Count = Whole>
[[gnu::always_inline]] inline void store(Bf16* p, F v, Count n = {}) {
  store_narrow(p, round_to(v, Bf16{}), n);
}
template <class Count = Whole>
[[gnu::always_inline]] inline void store(Fp16* p, F v, Count n = {}) {
  store_narrow(p, round_to(v, Fp16{}), n);
}

/// One element.
[[gnu::always_inline]] inline float load_one(const float* p) { return *p; }
template <class T>
[[gnu::always_inline]] inline float load_one(const T* p) {
  return load(p, i64{1})[0];
}
[[gnu::always_inline]] inline void store_one(float* p, float value) { *p = value; }
template <class T>
[[gnu::always_inline]] inline void store_one(T* p, float value) {
  store(p, broadcast(value), i64{1});
}

/// Calls f with a value of the type of a dtype, which is one of fp32, bf16 and fp16.
template <class Body>
[[gnu::always_inline]] inline void with_storage(DType dtype, Body&& f) {
  switch (dtype) {
    case DType::bf16:
      return f(Bf16{});
    case DType::fp16:
      return f(Fp16{});
    default:
      return f(float{});
  }
}

/// Stores at element `first` of a tensor, if there is one.
template <class Count>
[[gnu::always_inline]] inline void store_to(const TensorArg& to, i64 first, F v, Count n) {
  if (to.address == nullptr) return;
  with_storage(to.dtype, [&]<class T>(T) { store(to.as<T>() + first, v, n); });
}

}  // namespace
}  // namespace tessera::cpu::TESSERA_ISA

#pragma once
#include <immintrin.h>

#include "tessera/types.hpp"

// One vector of floats of the instruction set this file is compiled for: g++'s vector extensions
// give arithmetic, comparison and selection; intrinsics only where these fall short. Everything is
// in an unnamed namespace, so that the linker never takes one instruction set's code for another's.
namespace tessera::cpu::TESSERA_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

using F = float __attribute__((vector_size(4 * kLanes)));
using I = i32 __attribute__((vector_size(4 * kLanes)));  // also the result of comparing two F
using U = u32 __attribute__((vector_size(4 * kLanes)));

[[gnu::always_inline]] inline F broadcast(float x) { return x - F{}; }

/// Stands for "all lanes" where a function also takes a count of the first ones.
struct Whole {};

[[gnu::always_inline]] inline F load(const float* p, Whole = {}) {
  F v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
/// The first n (0 to kLanes) elements; the other lanes are zero.
[[gnu::always_inline]] inline F load(const float* p, i64 n) {
#if defined(__AVX512F__)
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1U << n) - 1), p);
#else
  F v = {};
  for (i64 i = 0; i < n; ++i) v[i] = p[i];
  return v;
#endif
}
[[gnu::always_inline]] inline void store(float* p, F v, Whole = {}) {
  __builtin_memcpy(p, &v, sizeof v);
}
[[gnu::always_inline]] inline void store(float* p, F v, i64 n) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1U << n) - 1), v);
#else
  for (i64 i = 0; i < n; ++i) p[i] = v[i];
#endif
}
/// v in the first n lanes, `other` in the rest.
[[gnu::always_inline]] inline F keep(F v, Whole, F = F{}) { return v; }
[[gnu::always_inline]] inline F keep(F v, i64 n, F other = F{}) {
  I lane;
  for (int i = 0; i < kLanes; ++i) lane[i] = i;
  return lane < static_cast<i32>(n) ? v : other;
}

/// x, rounded: not contracted with what it is added to. (__builtin_assoc_barrier of a vector is
/// computed lane by lane.)
[[gnu::always_inline]] inline F apart(F x) {
  asm("" : "+v"(x));
  return x;
}

/// The larger of each pair; b where one is NaN.
[[gnu::always_inline]] inline F maximum(F a, F b) {
#if defined(__AVX512F__)
  return _mm512_max_ps(a, b);
#elif defined(__AVX2__)
  return _mm256_max_ps(a, b);
#else
  return _mm_max_ps(a, b);
#endif
}
[[gnu::always_inline]] inline F minimum(F a, F b) {
#if defined(__AVX512F__)
  return _mm512_min_ps(a, b);
#elif defined(__AVX2__)
  return _mm256_min_ps(a, b);
#else
  return _mm_min_ps(a, b);
#endif
}
[[gnu::always_inline]] inline F square_root(F a) {
#if defined(__AVX512F__)
  return _mm512_sqrt_ps(a);
#elif defined(__AVX2__)
  return _mm256_sqrt_ps(a);
#else
  return _mm_sqrt_ps(a);
#endif
}

[[gnu::always_inline]] inline float sum(F v) {
#if defined(__AVX512F__)
  return _mm512_reduce_add_ps(v);
#else
  float lanes[kLanes];
  store(lanes, v);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
#endif
}
[[gnu::always_inline]] inline float largest(F v) {
#if defined(__AVX512F__)
  return _mm512_reduce_max_ps(v);
#else
  float best = v[0];
  for (int i = 1; i < kLanes; ++i) best = v[i] > best ? v[i] : best;
  return best;
#endif
}

/// Calls f(offset, Whole) for whole vectors of [0, n), then f(offset, count) for the rest. The two
/// calls have types of their own, so each is inlined.
template <class Body>
[[gnu::always_inline]] inline void for_vectors(i64 n, Body&& body) {
  i64 i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, Whole{});
  if (i < n) body(i, n - i);
}

}  // namespace
}  // namespace tessera::cpu::TESSERA_ISA

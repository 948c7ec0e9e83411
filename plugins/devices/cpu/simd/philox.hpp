#pragma once
#include <algorithm>

#include "simd/shuffle.hpp"
#include "tessera/random.hpp"

// tessera::Philox on kLanes counters at once, bit for bit.
namespace tessera::cpu::TESSERA_ISA {
namespace {

struct Halves {
  U high, low;
};

/// Upper and lower halves of the 64-bit products of each lane with m.
[[gnu::always_inline]] inline Halves multiply_wide(U a, u32 m) {
  using W = u64 __attribute__((vector_size(4 * kLanes)));
  const U factor = m - U{};
  const W odd_lanes = (W)a >> 32;
#if defined(__AVX512F__)
  const W even = (W)_mm512_mul_epu32((__m512i)a, (__m512i)factor);
  const W odd = (W)_mm512_mul_epu32((__m512i)odd_lanes, (__m512i)factor);
#elif defined(__AVX2__)
  const W even = (W)_mm256_mul_epu32((__m256i)a, (__m256i)factor);
  const W odd = (W)_mm256_mul_epu32((__m256i)odd_lanes, (__m256i)factor);
#else
  const W even = (W)_mm_mul_epu32((__m128i)a, (__m128i)factor);
  const W odd = (W)_mm_mul_epu32((__m128i)odd_lanes, (__m128i)factor);
#endif
  constexpr u64 kUpper = 0xFFFFFFFF00000000;
  return {(U)((even >> 32) | (odd & kUpper)), (U)((even & ~kUpper) | (odd << 32))};
}

/// Writes the words of the counters {c[0] + i, c[1], c[2], c[3]}, i < counters, four for each.
/// `out` has room for a multiple of 4 · kLanes words.
inline void philox_words(u64 key, const Philox::Words& c, i64 counters, u32* out) {
  U lane;
  for (int i = 0; i < kLanes; ++i) lane[i] = static_cast<u32>(i);
  for (i64 first = 0; first < counters; first += kLanes) {
    U c0 = lane + (c[0] + static_cast<u32>(first));
    U c1 = c[1] - U{}, c2 = c[2] - U{}, c3 = c[3] - U{};
    u32 k0 = static_cast<u32>(key), k1 = static_cast<u32>(key >> 32);
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      const Halves p0 = multiply_wide(c0, Philox::kM0), p1 = multiply_wide(c2, Philox::kM1);
      c0 = p1.high ^ c1 ^ k0;
      c1 = p1.low;
      c2 = p0.high ^ c3 ^ k1;
      c3 = p0.low;
      k0 += Philox::kW0;
      k1 += Philox::kW1;
    }
    const U even_low = zip_low(c0, c2), even_high = zip_high(c0, c2);
    const U odd_low = zip_low(c1, c3), odd_high = zip_high(c1, c3);
    const U words[4] = {zip_low(even_low, odd_low),
                        zip_high(even_low, odd_low),
                        zip_low(even_high, odd_high),
                        zip_high(even_high, odd_high)};
    __builtin_memcpy(out + 4 * first, words, sizeof words);
  }
}

/// Scales what is kept by 1 / (1 - p), drops the rest.
struct Keeper {
  u32 threshold;
  float scale;
  explicit Keeper(double p)
      : threshold(static_cast<u32>(std::min<u64>(keep_threshold(p), 0xFFFFFFFF))),
        scale(static_cast<float>(1 / (1 - p))) {}
  /// The factor of each lane, `scale` or 0, by its word.
  [[gnu::always_inline]] F factor(const u32* words) const {
    U w;
    __builtin_memcpy(&w, words, sizeof w);
    return w < threshold ? broadcast(scale) : F{};
  }
};

}  // namespace
}  // namespace tessera::cpu::TESSERA_ISA

#pragma once
#include "simd/shuffle.hpp"
#include "simd/storage.hpp"

// What products multiply: words. A word is a float, or a pair of bf16 that follow each other along
// the inner dimension where the processor multiplies pairs (AVX-512 BF16, tiles).
namespace tessera::cpu::TESSERA_ISA {
namespace {

#if defined(TESSERA_BASE_ISA)
constexpr bool kOnTiles = true;
constexpr i64 kStepUnit = 16;  // of the inner dimension of packed factors, zero beyond the last
#else
constexpr bool kOnTiles = false;
constexpr i64 kStepUnit = 1;
#endif

inline i64 round_up(i64 n, i64 unit) { return (n + unit - 1) / unit * unit; }
inline i64 at_most(i64 a, i64 b) { return a < b ? a : b; }

/// The words of elements of T, and how many elements one holds.
template <class T>
struct Packed {
  using Word = float;
  static constexpr i64 kDepth = 1;
  static constexpr Word kOnes = 1.0F;  ///< a word of ones
  /// Words of `left` elements (or more than kLanes) that follow each other along the depth.
  [[gnu::always_inline]] static F along(const T* p, i64 left) {
    return left >= kLanes ? load(p) : load(p, left);
  }
  /// Words of `n` neighbours; `next` is the address one depth on, unused here.
  template <class Count>
  [[gnu::always_inline]] static F across(const T* p, const T*, Count n) {
    return load(p, n);
  }
};

/// sum + a · b; b is kLanes words.
[[gnu::always_inline]] inline F multiply_add(F sum, float a, F b) { return sum + broadcast(a) * b; }

#if defined(__AVX512BF16__)
template <>
struct Packed<Bf16> {
  using Word = u32;
  static constexpr i64 kDepth = 2;
  static constexpr Word kOnes = 0x3F803F80;
  [[gnu::always_inline]] static F along(const Bf16* p, i64 left) {
    const __mmask32 mask = left >= 2 * kLanes ? 0xFFFFFFFFU : (1U << left) - 1;
    return (F)_mm512_maskz_loadu_epi16(mask, p);
  }
  template <class Count>
  [[gnu::always_inline]] static F across(const Bf16* p, const Bf16* next, Count n) {
    const __m512i low = _mm512_cvtepu16_epi32(load_narrow(p, n));
    if (next == nullptr) return (F)low;
    return (F)(low | _mm512_slli_epi32(_mm512_cvtepu16_epi32(load_narrow(next, n)), 16));
  }
  /// Words of 2 · kLanes neighbours.
  [[gnu::always_inline]] static void across_two(const Bf16* p, const Bf16* next, F& low, F& high) {
    using Lanes = short __attribute__((vector_size(64)));
    Lanes first, second, order;
    __builtin_memcpy(&first, p, sizeof first);
    __builtin_memcpy(&second, next, sizeof second);
    for (int i = 0; i < 2 * kLanes; ++i) order[i] = static_cast<short>(i / 2 + i % 2 * 2 * kLanes);
    low = (F)__builtin_shuffle(first, second, order);
    high = (F)__builtin_shuffle(first, second, order + static_cast<short>(kLanes));
  }
  /// Words of first and second, rounded.
  [[gnu::always_inline]] static F pair(F first, F second) {
    const __m512i low = _mm512_cvtepu16_epi32(round_to(first, Bf16{}));
    return (F)(low | _mm512_slli_epi32(_mm512_cvtepu16_epi32(round_to(second, Bf16{})), 16));
  }
};

[[gnu::always_inline]] inline F multiply_add(F sum, u32 a, F b) {
  return _mm512_dpbf16_ps(sum, (__m512bh)_mm512_set1_epi32(static_cast<int>(a)), (__m512bh)b);
}
#elif defined(TESSERA_BASE_ISA)
// What emulated tiles multiply.
template <>
struct Packed<Bf16> {
  using Word = u32;
  static constexpr i64 kDepth = 2;
  static constexpr Word kOnes = 0x3F803F80;
  static F along(const Bf16* p, i64 left) {
    Bf16 pairs[2 * kLanes] = {};
    __builtin_memcpy(pairs, p, sizeof(Bf16) * static_cast<std::size_t>(at_most(left, 2 * kLanes)));
    F words;
    __builtin_memcpy(&words, pairs, sizeof words);
    return words;
  }
  template <class Count>
  static F across(const Bf16* p, const Bf16* next, Count n) {
    return words_of(load(p, n), next == nullptr ? F{} : load(next, n));
  }
  static void across_two(const Bf16* p, const Bf16* next, F& low, F& high) {
    low = across(p, next, Whole{});
    high = across(p + kLanes, next + kLanes, Whole{});
  }
  static F pair(F first, F second) {
    return words_of(widen(round_to(first, Bf16{}), Bf16{}),
                    widen(round_to(second, Bf16{}), Bf16{}));
  }

 private:
  static F words_of(F first, F second) { return (F)((U)first >> 16 | (U)second); }
};

inline F multiply_add(F sum, u32 a, F b) {
  const U pairs = {};
  const F first = (F)((pairs + a) << 16), second = (F)((pairs + a) & 0xFFFF0000);
  return sum + first * (F)((U)b << 16) + second * (F)((U)b & 0xFFFF0000);
}
#endif

/// Calls f with a value of the type of what is multiplied: on tiles always bf16 (table.cpp).
template <class Body>
[[gnu::always_inline]] inline void with_factors(DType dtype, Body&& f) {
  if constexpr (kOnTiles) {
    f(Bf16{});
  } else {
    with_storage(dtype, f);
  }
}

/// A factor: element (line, p) of the inner index p at data[line · line_stride + p · depth_stride],
/// one of the strides being 1.
template <class T>
struct Factor {
  const T* data;
  i64 line_stride, depth_stride;
};

template <class T>
inline i64 steps_of(i64 depth) {
  return (depth + Packed<T>::kDepth - 1) / Packed<T>::kDepth;
}

/// The steps of a depth, rounded up to whole tiles.
template <class T>
inline i64 packed_steps(i64 depth) {
  return round_up(steps_of<T>(depth), kStepUnit);
}

template <class Word>
[[gnu::always_inline]] inline F load_words(const Word* from) {
  F words;
  __builtin_memcpy(&words, from, sizeof words);
  return words;
}
template <class Word>
[[gnu::always_inline]] inline void store_words(Word* to, F words) {
  __builtin_memcpy(to, &words, sizeof words);
}

/// Makes the words of a slab zero from `steps` to packed_steps.
template <class Word>
inline void clear_steps(Word* slab, i64 steps, i64 width) {
  for (i64 step = steps; step % kStepUnit != 0; ++step) store_words(slab + step * width, F{});
}

/// Packs lines [first, first + n), n <= kLanes, zero beyond: the words of step s at to[s · width].
template <class T>
inline void pack_slab(
    Factor<T> from, i64 first, i64 n, i64 depth, typename Packed<T>::Word* to, i64 width) {
  constexpr i64 kDepth = Packed<T>::kDepth;
  const i64 steps = steps_of<T>(depth);
  if (from.depth_stride == 1) {
    for (i64 step = 0; step < steps; step += kLanes) {
      F lines[kLanes] = {};
      for (int i = 0; i < kLanes; ++i) {
        if (i >= n) break;
        const T* line = from.data + (first + i) * from.line_stride + step * kDepth;
        lines[i] = Packed<T>::along(line, depth - step * kDepth);
      }
      transpose(lines);
      const i64 left = steps - step < kLanes ? steps - step : kLanes;
      if (left == kLanes) {
#pragma GCC unroll 16
        for (int i = 0; i < kLanes; ++i) store_words(to + (step + i) * width, lines[i]);
      } else {
        for (i64 i = 0; i < left; ++i) store_words(to + (step + i) * width, lines[i]);
      }
    }
    return;
  }
  for (i64 step = 0; step < steps; ++step) {
    const T* p = from.data + step * kDepth * from.depth_stride + first;
    const T* next = (step + 1) * kDepth <= depth ? p + from.depth_stride : nullptr;
    const F words =
        n == kLanes ? Packed<T>::across(p, next, Whole{}) : Packed<T>::across(p, next, n);
    store_words(to + step * width, words);
  }
}

/// Packs lines [first, first + n) as slabs; `place(i)` is where slab i begins, `width` as above.
/// Where lines lie side by side several slabs are packed at once, so that a line of the cache is
/// read once, and what comes is prefetched: strides defeat the processor's own guess.
template <class T, class Place>
inline void pack_slabs(Factor<T> from, i64 first, i64 n, i64 depth, Place place, i64 width) {
  i64 slab = 0;
  if constexpr (Packed<T>::kDepth == 2) {
    constexpr int kSlabs = 4;
    constexpr i64 kAhead = 24;  // depths
    const i64 stride = from.depth_stride;
    const bool pairs = stride != 1 && depth % 2 == 0;
    for (; pairs && (slab + kSlabs) * kLanes <= n; slab += kSlabs) {
      typename Packed<T>::Word* to[kSlabs];
      for (int i = 0; i < kSlabs; ++i) to[i] = place(slab + i);
      const T* p = from.data + first + slab * kLanes;
      for (i64 step = 0; step < depth / 2; ++step, p += 2 * stride) {
#pragma GCC unroll 4
        for (int i = 0; i < kSlabs; i += 2) {
          const T* at = p + i * kLanes;
          __builtin_prefetch(at + kAhead * stride);
          __builtin_prefetch(at + (kAhead + 1) * stride);
          F low, high;
          Packed<T>::across_two(at, at + stride, low, high);
          store_words(to[i] + step * width, low);
          store_words(to[i + 1] + step * width, high);
        }
      }
    }
  }
  if constexpr (Packed<T>::kDepth == 1) {
    constexpr int kSlabs = 3;
    constexpr i64 kAhead = 16;  // depths
    const i64 stride = from.depth_stride;
    for (; stride != 1 && (slab + kSlabs) * kLanes <= n; slab += kSlabs) {
      typename Packed<T>::Word* to[kSlabs];
      for (int i = 0; i < kSlabs; ++i) to[i] = place(slab + i);
      const T* p = from.data + first + slab * kLanes;
      for (i64 step = 0; step < depth; ++step, p += stride) {
#pragma GCC unroll 3
        for (int i = 0; i < kSlabs; ++i) {
          const T* at = p + i * kLanes;
          __builtin_prefetch(at + kAhead * stride);
          store_words(to[i] + step * width, load(at));
        }
      }
    }
  }
  for (; slab * kLanes < n; ++slab) {
    const i64 left = n - slab * kLanes;
    const i64 lines = left < kLanes ? left : kLanes;
    pack_slab(from, first + slab * kLanes, lines, depth, place(slab), width);
  }
}

}  // namespace
}  // namespace tessera::cpu::TESSERA_ISA

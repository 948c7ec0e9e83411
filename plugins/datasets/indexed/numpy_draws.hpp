#pragma once
#include <bit>
#include <cstddef>
#include <random>
#include <span>
#include <utility>

#include "tessera/types.hpp"

namespace tessera {

/// What numpy.random.RandomState makes of words of 32 random bits (numpy/random/src/legacy,
/// distributions.c). NumPy keeps these streams for ever (NEP 19). With `Words` = std::mt19937,
/// whose seeding is the same, they are those of RandomState(seed); other words give other numbers
/// of the same distributions.
template <class Words>
class NumpyDraws {
 public:
  explicit NumpyDraws(Words words) : words_(std::move(words)) {}

  /// random_sample(): uniform in [0, 1), of 53 bits.
  double uniform() {
    const u32 high = word() >> 5, low = word() >> 6;
    return (high * 67108864.0 + low) / 9007199254740992.0;
  }

  /// randint(0, most + 1): numbers are masked and drawn again until one is in range. None is drawn
  /// where there is no choice.
  u64 at_most(u64 most) {
    if (most == 0) return 0;
    const u64 mask = ~u64{0} >> std::countl_zero(most);
    for (;;) {
      u64 drawn = word();
      if (most > 0xFFFF'FFFF) drawn = drawn << 32 | word();
      if ((drawn & mask) <= most) return drawn & mask;
    }
  }

  /// shuffle() of one dimension: Fisher and Yates's from the last element on.
  template <class T>
  void shuffle(std::span<T> values) {
    for (std::size_t i = values.size(); i-- > 1;) std::swap(values[i], values[at_most(i)]);
  }

 private:
  u32 word() { return static_cast<u32>(words_()); }

  Words words_;
};

/// numpy.random.RandomState(seed).
inline NumpyDraws<std::mt19937> numpy_random_state(u32 seed) {
  return NumpyDraws(std::mt19937(seed));
}

}  // namespace tessera

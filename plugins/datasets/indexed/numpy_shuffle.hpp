#pragma once
#include <bit>
#include <cstddef>
#include <random>
#include <span>
#include <utility>

#include "tessera/types.hpp"

namespace tessera {

/// numpy.random.RandomState(seed).shuffle of one dimension: Fisher and Yates's shuffle from the
/// last element on, with numbers of MT19937 that are masked and drawn again until one is in range
/// (numpy/random/src/legacy, `random_interval`). NumPy keeps this stream for ever (NEP 19). The
/// generator is std::mt19937, whose seeding is the same.
class NumpyShuffle {
 public:
  explicit NumpyShuffle(u32 seed) : words_(seed) {}

  template <class T>
  void operator()(std::span<T> values) {
    for (std::size_t i = values.size(); i-- > 1;) std::swap(values[i], values[below_or_at(i)]);
  }

 private:
  std::size_t below_or_at(u64 most) {
    const u64 mask = ~u64{0} >> std::countl_zero(most);
    for (;;) {
      u64 word = words_();
      if (most > 0xFFFF'FFFF) word = word << 32 | words_();
      if ((word & mask) <= most) return word & mask;
    }
  }

  std::mt19937 words_;
};

}  // namespace tessera

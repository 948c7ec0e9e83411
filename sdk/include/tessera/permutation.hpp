#pragma once
#include <bit>

#include "tessera/random.hpp"

namespace tessera {

/// A keyed permutation of [0, n) in constant memory, so that a run resumes at any position of any
/// epoch at once: a Feistel network on the smallest even number of bits that holds n (Luby,
/// Rackoff 1988), with Philox as its round function, walked until it lands inside (cycle walking:
/// Black, Rogaway 2002, §3). Fewer than four steps on average.
class Permutation {
 public:
  Permutation(i64 n, u64 key, u64 epoch)
      : n_(static_cast<u64>(n)),
        key_(key),
        epoch_(epoch),
        half_bits_((std::bit_width(n_ - 1) + 1) / 2),
        mask_((u64{1} << half_bits_) - 1) {}

  i64 operator()(i64 index) const {
    if (n_ <= 1) return index;
    auto at = static_cast<u64>(index);
    do {
      at = network(at);
    } while (at >= n_);
    return static_cast<i64>(at);
  }

 private:
  static constexpr u32 kRounds = 8;

  u64 network(u64 at) const {
    u64 left = at >> half_bits_, right = at & mask_;
    for (u32 round = 0; round < kRounds; ++round) {
      // right has at most 32 bits, because n < 2^63.
      const Philox::Words words = Philox::words(key_,
                                                {static_cast<u32>(right),
                                                 round,
                                                 static_cast<u32>(epoch_),
                                                 static_cast<u32>(epoch_ >> 32)});
      const u64 next = (left ^ words[0]) & mask_;
      left = right;
      right = next;
    }
    return (left << half_bits_) | right;
  }

  u64 n_, key_, epoch_;
  int half_bits_;
  u64 mask_;
};

}  // namespace tessera

#pragma once
#include <cstddef>

#include "tessera/random.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// Words of 32 random bits, one after the other, that a key and a number decide: word % 4 of
/// counter (word / 4, number), each of 64 bits.
class PhiloxWords {
 public:
  PhiloxWords(u64 key, u64 number) : key_(key), number_(number) {}

  u32 operator()() {
    const std::size_t within = at_ % 4;
    if (within == 0) {
      words_ = Philox::words(key_,
                             {static_cast<u32>(at_ / 4),
                              static_cast<u32>(at_ / 4 >> 32),
                              static_cast<u32>(number_),
                              static_cast<u32>(number_ >> 32)});
    }
    ++at_;
    return words_[within];
  }

 private:
  u64 key_, number_, at_ = 0;
  Philox::Words words_{};
};

}  // namespace tessera

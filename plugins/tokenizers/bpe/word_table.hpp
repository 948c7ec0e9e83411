#pragma once
#include <array>
#include <string_view>
#include <vector>

#include "tessera/types.hpp"

namespace tessera {

/// Words that were met and what is known of each. A word lies in the table itself, so that finding
/// it again is one place of memory: words come some ten million times a second. For one thread.
class WordTable {
 public:
  /// Bytes of the longest word that fits.
  static constexpr std::size_t kLongest = 31;
  /// Of a word: its one token, or where its tokens are kept.
  struct Tokens {
    u32 count = 0;  ///< 0: nothing is known
    u32 at = 0;     ///< where count is 1 the token, else the place of the first
  };

  WordTable() { clear(); }
  std::size_t size() const { return size_; }
  void clear();
  /// Of a word of 1 to kLongest bytes; a new one is taken in. Valid until the next call.
  Tokens& find(std::string_view word);

 private:
  // The bytes, zeros, and in the last byte how many there are; 0 there: nobody is here.
  using Key = std::array<u64, 4>;
  static_assert(sizeof(Key) == kLongest + 1);
  struct Entry {
    Key key{};
    Tokens tokens;
  };
  Entry& place(const Key& key);
  void grow();

  std::vector<Entry> entries_;  // open addressing, at most half full; a power of two
  std::size_t size_ = 0;
};

}  // namespace tessera

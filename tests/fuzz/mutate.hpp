#pragma once
#include <random>
#include <string>
#include <vector>

namespace tessera::fuzz {

/// Changes inputs at random, as AFL does: flipped bits, integers at their limits, removed, copied
/// and inserted pieces, and the beginning of one input with the end of another. The same seed makes
/// the same inputs on every machine.
class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}
  /// `text` with one to eight changes; `other` is what it may be spliced with.
  std::string mutate(std::string text,
                     const std::string& other,
                     const std::vector<std::string>& tokens);
  /// 0 … count - 1; 0 where count is 0.
  std::size_t below(std::size_t count) { return count == 0 ? 0 : random_() % count; }

 private:
  void change(std::string& text, const std::string& other, const std::vector<std::string>& tokens);
  void put_integer(std::string& text);
  void put_number(std::string& text);
  std::mt19937_64 random_;
};

}  // namespace tessera::fuzz

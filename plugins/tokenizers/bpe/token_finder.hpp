#pragma once
#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bpe_files.hpp"
#include "tessera/data.hpp"

namespace tessera {

/// Finds tokens that are looked for in the text itself: from the left, and the longest of several
/// at one place. Thread-safe once it is made.
class TokenFinder {
 public:
  explicit TokenFinder(std::vector<AddedToken> tokens);
  TokenFinder(const TokenFinder&) = delete;
  TokenFinder& operator=(const TokenFinder&) = delete;

  /// A part of a text: a token, or what lies between two, with -1.
  using Take = std::function<void(std::string_view part, i32 id)>;
  /// Calls `take` with all of `text`, part by part; parts without a byte are left out. Tokens take
  /// the white space beside them where their flags say so. Special ones that are text hide others
  /// within them, as in the package tokenizers.
  void for_each(std::string_view text, SpecialTexts special, const Take& take) const;
  bool empty() const { return tokens_.empty(); }
  /// Is one of the tokens special?
  bool has_special() const;

 private:
  struct Found {
    std::size_t begin = 0, end = 0;
    const AddedToken* token = nullptr;  // nullptr: there is none
  };
  Found next(std::string_view text, std::size_t begin) const;

  std::vector<AddedToken> tokens_;
  std::array<bool, 256> first_{};           // bytes that tokens begin with
  bool one_first_ = true;                   // all begin with one byte
  std::unordered_map<u64, u32> branches_;   // node and byte to node; the root is 0
  std::vector<const AddedToken*> ends_{1};  // token that ends at a node
};

}  // namespace tessera

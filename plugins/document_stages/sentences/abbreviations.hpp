#pragma once
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "tessera/types.hpp"

namespace tessera {

/// What a full stop after a word says of the sentence's end.
enum class StopMeaning : u8 {
  end,      ///< the sentence ends, where what follows may begin one
  unclear,  ///< an abbreviation that may end one, too: "etc.", "a.m.", "J.", "U.S."
  part      ///< of the word: "Dr.", "e.g."
};

/// Knows abbreviations by a list, whatever their capitals, and by their form.
class Abbreviations {
 public:
  /// `more`: further ones, with or without their last full stop, after which no sentence ends.
  explicit Abbreviations(const std::vector<std::string>& more);
  /// `word` is without the full stop after it. A number makes a difference to "No." and "Jan.".
  StopMeaning of(std::string_view word, bool number_follows) const;

 private:
  std::unordered_set<std::string> part_, of_number_, unclear_;
};

/// Is it a word that often begins a sentence and is seldom part of a name: "The", "However"? They
/// decide after an abbreviation that is unclear.
bool often_begins(std::string_view word);

}  // namespace tessera

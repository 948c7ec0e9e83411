#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tessera/types.hpp"

namespace tessera {

/// Documents that follow each other in one file and belong to one set.
struct Piece {
  std::size_t file = 0;
  std::string_view text;
  bool validation = false;
};

/// Which documents train and which validate.
struct Split {
  std::vector<Piece> pieces;         ///< in the order of the texts, none empty
  i64 training = 0, validation = 0;  ///< documents of each
  std::string unit;                  ///< what they are: "files", "paragraphs", …
};

/// Holds back documents of about `share` of the texts' bytes, chosen by `key`. A document is a text
/// as a whole. What is larger than all that is held back is cut, so that there is a choice: a text
/// at its blank lines, a paragraph at its line ends, a line into equal parts. What is shorter than
/// a thousandth of it stays with what follows, which bounds the number of pieces.
Split split_documents(const std::vector<std::string_view>& texts, double share, u64 key);

}  // namespace tessera

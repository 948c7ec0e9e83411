#pragma once
#include <vector>

#include "tessera/io/token_file.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// Tokens of one document that follow each other in a sample.
struct Piece {
  i64 begin = 0;      ///< in the file's tokens
  i64 count = 0;      ///< above 0
  bool ends = false;  ///< its last token is the document's last, which is its end-of-document token
  i64 quiet = 0;      ///< so many of its targets, the first ones, have no loss
};

/// Where a sample's tokens are: those of its pieces, one after the other, sequence_length + 1 of
/// them, because each token's target is the next one. There may be fewer where the end of a set is
/// shown too; then the rest is padding.
struct Sample {
  const TokenFile* file = nullptr;  ///< nullptr: tokens are in no token file
  std::vector<Piece> pieces;
  /// Pieces are of documents that have nothing to do with each other: the target of a piece's last
  /// token is the token after it in the file. Then a sample has no token more than its pieces, and
  /// up to sequence_length of them.
  bool packed = false;
  // Of sentences, each of which is a piece, and may be empty:
  i64 number = 0;  ///< which of its part's samples it is
  i64 target = 0;  ///< so many tokens are kept of more
};

/// Which sample of a set has which ordinal. Thread-safe.
class Order {
 public:
  virtual ~Order() = default;
  /// Samples of an epoch.
  virtual i64 size() const = 0;
  virtual void find(i64 ordinal, Sample& sample) const = 0;
};

}  // namespace tessera

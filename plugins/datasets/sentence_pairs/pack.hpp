#pragma once
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/data.hpp"

namespace tessera {

/// What BERT puts around texts.
struct PairMarks {
  i64 cls = 0, sep = 0, pad = 0;
  /// Throws ConfigError where the tokenizer has no [CLS] and [SEP].
  explicit PairMarks(const Tokenizer& tokenizer);
};

/// Tokens of the texts that a set has, in one array.
class TokenLists {
 public:
  /// `vocabulary`: rows of the model's table of tokens; 0: not known.
  TokenLists(const Tokenizer& tokenizer, i64 vocabulary)
      : encoder_(tokenizer.encoder()), vocabulary_(vocabulary) {}
  /// Its number is size() before; what is beyond `most` tokens is cut off. Throws ConfigError for a
  /// token that the model has not.
  void add(std::string_view text, i64 most = std::numeric_limits<i64>::max());
  void add(const std::vector<i32>& ids);
  i64 size() const { return static_cast<i64>(ends_.size()) - 1; }
  std::span<const i32> operator[](i64 number) const;
  /// No more are added: what only encoding needs goes.
  void finish() { encoder_.reset(); }

 private:
  void end(std::size_t begin);

  std::unique_ptr<TextEncoder> encoder_;
  i64 vocabulary_;
  std::vector<i32> ids_;
  std::vector<std::size_t> ends_ = {0};
};

/// Where the fields of a pair go, of each `length` elements.
struct PairPlaces {
  i64 *tokens, *segments;
  i32* last;  ///< the pair's last token, or -1 for padding
};

/// Writes [CLS] A [SEP] B [SEP] and padding. What is too long is cut at the end, and its last token
/// is [SEP]. Segment 1 is B with the [SEP] after it; all else is 0. `begin` is the place of [CLS]
/// in the sample, from which `last` counts. Returns how many tokens it has. `length` is 3 or more.
i64 pack_pair(const PairMarks& marks,
              std::span<const i32> a,
              std::span<const i32> b,
              i64 length,
              i64 begin,
              const PairPlaces& out);

/// The same of a text alone: [CLS] A [SEP], all of segment 0.
i64 pack_text(const PairMarks& marks,
              std::span<const i32> text,
              i64 length,
              i64 begin,
              const PairPlaces& out);

/// Tokens of a pair, and of a text alone, before they are cut: so many more than those of texts.
inline constexpr i64 kPairMarks = 3, kTextMarks = 2;

}  // namespace tessera

#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "byte_alphabet.hpp"
#include "pattern.hpp"
#include "tokenizer_file.hpp"

namespace tessera {

/// Joins the texts of tokens. Bytes that are no UTF-8 stay what they are, where the package
/// tokenizers writes U+FFFD. Thread-safe once it is made.
class TokenDecoder {
 public:
  /// `alphabet` outlives it.
  TokenDecoder(const std::optional<std::vector<DecoderStep>>& steps, const ByteAlphabet& alphabet);
  std::string operator()(std::vector<std::string> tokens) const;

 private:
  using Step = std::pair<DecoderStep, std::optional<Pattern>>;
  void apply(const Step& step, std::vector<std::string>& tokens) const;

  const ByteAlphabet& alphabet_;
  bool spaces_ = false;  // between tokens
  std::vector<Step> steps_;
};

}  // namespace tessera

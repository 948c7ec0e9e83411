#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bert_words.hpp"
#include "byte_alphabet.hpp"
#include "first_symbols.hpp"
#include "normalizer.hpp"
#include "pre_tokenizer.hpp"
#include "tessera/data.hpp"
#include "token_decoder.hpp"
#include "token_finder.hpp"
#include "tokenizer_file.hpp"
#include "vocabulary.hpp"
#include "word_encoder.hpp"

namespace tessera {

/// The tokens that the package tokenizers of Hugging Face makes by a tokenizer.json, with nothing
/// put around a text. Bytes that are no UTF-8, which that package does not take, stand between the
/// texts before and after them.
class HuggingFaceTokenizer : public Tokenizer {
 public:
  struct Config {
    std::string path;
    Auto<i64> most_tokens;
    static void describe(Schema<Config>& s);
  };
  HuggingFaceTokenizer(const Config& config, TokenizerArguments&);
  explicit HuggingFaceTokenizer(const TokenizerFile& file);
  /// And with the roles that the files beside it give to tokens. `all`: added tokens of the file
  /// were not left out.
  HuggingFaceTokenizer(const TokenizerFile& file, bool all);

  i64 do_vocabulary() const override { return vocabulary_.size(); }
  std::string do_fingerprint() const override { return fingerprint_; }
  std::vector<i32> do_encode(std::string_view text) const override {
    return ids_of(*this, text, SpecialTexts::as_text);
  }
  std::vector<i32> do_encode_parsed(std::string_view text) const override {
    return ids_of(*this, text, SpecialTexts::parsed);
  }
  bool do_has_special_texts() const override {
    return as_written_.has_special() || normalized_.has_special();
  }
  std::unique_ptr<TextEncoder> do_encoder(SpecialTexts special) const override {
    return std::make_unique<WordsOfTexts<HuggingFaceTokenizer>>(*this, special);
  }
  SpecialIds do_special_ids() const override { return special_ids_; }
  bool do_continues_word(i32 id) const override;
  std::string do_decode(const std::vector<i32>& ids) const override;

  WordEncoder words() const { return {vocabulary_, rules_, first_symbols_, alphabet_}; }
  void append(std::string_view text,
              SpecialTexts special,
              WordEncoder& words,
              std::vector<i32>& ids) const;

 private:
  std::vector<AddedToken> looked_for(const TokenizerFile& file, bool normalized) const;

  ByteAlphabet alphabet_;
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  TokenDecoder decoder_;
  Vocabulary vocabulary_;
  BpeRules rules_;
  FirstSymbols first_symbols_;
  TokenFinder as_written_, normalized_;            // added tokens by where they are looked for
  std::optional<BertWords> bert_words_;            // none: all texts go through the steps
  std::unordered_map<i32, std::string> as_found_;  // texts of normalized_, as they are decoded
  std::string fingerprint_;
  SpecialIds special_ids_;
};

}  // namespace tessera

#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "byte_alphabet.hpp"
#include "first_symbols.hpp"
#include "tessera/data.hpp"
#include "token_finder.hpp"
#include "vocabulary.hpp"
#include "word_encoder.hpp"
#include "words.hpp"

namespace tessera {

/// The byte-level BPE of GPT-2: any bytes to tokens and back, bit for bit.
class Gpt2Tokenizer final : public Tokenizer {
 public:
  struct Config {
    std::string path;
    Auto<std::vector<std::string>> special;
    Auto<i64> most_tokens;
    static void describe(Schema<Config>& s);
  };
  Gpt2Tokenizer(const Config& config, TokenizerArguments&)
      : Gpt2Tokenizer(config, read_bpe(config.path)) {}

  i64 do_vocabulary() const override { return vocabulary_.size(); }
  std::string do_fingerprint() const override { return fingerprint_; }
  std::vector<i32> do_encode(std::string_view text) const override {
    return ids_of(*this, text, SpecialTexts::as_text);
  }
  std::vector<i32> do_encode_parsed(std::string_view text) const override {
    return ids_of(*this, text, SpecialTexts::parsed);
  }
  std::string do_decode(const std::vector<i32>& ids) const override;
  bool do_has_special_texts() const override { return special_.has_special(); }
  std::unique_ptr<TextEncoder> do_encoder(SpecialTexts special) const override {
    return std::make_unique<WordsOfTexts<Gpt2Tokenizer>>(*this, special);
  }
  SpecialIds do_special_ids() const override { return special_ids_; }

  WordEncoder words() const { return {vocabulary_, rules_, first_symbols_, alphabet_}; }
  void append(std::string_view text,
              SpecialTexts special,
              WordEncoder& words,
              std::vector<i32>& ids) const;

 private:
  Gpt2Tokenizer(const Config& config, const BpeFiles& files);
  Gpt2Tokenizer(const Config& config,
                const BpeFiles& files,
                const std::vector<AddedToken>& special);

  Words words_;
  ByteAlphabet alphabet_;
  BpeRules rules_;
  Vocabulary vocabulary_;
  FirstSymbols first_symbols_;
  TokenFinder special_;
  std::string fingerprint_;
  SpecialIds special_ids_;
};

}  // namespace tessera

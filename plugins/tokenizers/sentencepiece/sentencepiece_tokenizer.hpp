#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "control_texts.hpp"
#include "model_file.hpp"
#include "processor.hpp"
#include "sentence_cuts.hpp"
#include "tessera/data.hpp"

namespace tessera {

/// The tokens that SentencePiece (Kudo, Richardson 2018) makes by a model of its own: unigram, BPE,
/// words or characters, with its normal forms, bytes and user-defined symbols.
class SentencePieceTokenizer final : public Tokenizer {
 public:
  struct Config {
    std::string path;
    static void describe(Schema<Config>& s);
  };
  SentencePieceTokenizer(const Config& config, TokenizerArguments&);

  i64 do_vocabulary() const override { return processor_.size(); }
  std::string do_fingerprint() const override { return fingerprint_; }
  std::vector<i32> do_encode(std::string_view text) const override;
  std::vector<i32> do_encode_parsed(std::string_view text) const override;
  std::string do_decode(const std::vector<i32>& ids) const override;
  bool do_has_special_texts() const override { return !controls_.empty(); }
  SpecialIds do_special_ids() const override { return processor_.special_ids(); }

 private:
  explicit SentencePieceTokenizer(const ModelFile& file);

  void append(std::string_view text, std::vector<i32>& ids) const;

  Processor processor_;
  SentenceCuts cuts_;
  ControlTexts controls_;
  std::string fingerprint_;
};

}  // namespace tessera

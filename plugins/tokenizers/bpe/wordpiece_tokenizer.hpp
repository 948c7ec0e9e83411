#pragma once
#include <string>

#include "huggingface_tokenizer.hpp"

namespace tessera {

/// BERT's tokens (Devlin et al. 2018) from its vocab.txt: what the tokenizer `huggingface` makes of
/// the tokenizer.json of the same model.
class WordPieceTokenizer final : public HuggingFaceTokenizer {
 public:
  struct Config {
    std::string path;
    Auto<bool> lowercase;
    static void describe(Schema<Config>& s);
  };
  WordPieceTokenizer(const Config& config, TokenizerArguments&);
};

}  // namespace tessera

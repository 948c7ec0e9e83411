#include "wordpiece_tokenizer.hpp"

#include "vocab_txt.hpp"

namespace tessera {

void WordPieceTokenizer::Config::describe(Schema<Config>& s) {
  s.field("path", &Config::path, "a vocab.txt, one token a line, or the folder that has it")
      .is_path()
      .required();
  s.field("lowercase",
          &Config::lowercase,
          "no capitals, and no accents unless tokenizer_config.json keeps them; \"auto\": as "
          "do_lower_case of that file says, or true");
}

WordPieceTokenizer::WordPieceTokenizer(const Config& config, TokenizerArguments&)
    : HuggingFaceTokenizer(
          read_vocab_txt(config.path,
                         config.lowercase ? std::optional(*config.lowercase) : std::nullopt),
          true) {}

}  // namespace tessera

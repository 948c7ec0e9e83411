#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "tokenizer_file.hpp"

namespace tessera {

/// BERT's vocab.txt, one token a line, with what tokenizer_config.json, special_tokens_map.json and
/// added_tokens.json beside it say; `lowercase` goes before "do_lower_case" of the first, which is
/// true where nobody says so. Throws ConfigError naming the file, the line, the key: a token twice,
/// none of a role ("[MASK]"), tokens that are not in vocab.txt, what is not known.
TokenizerFile read_vocab_txt(const std::filesystem::path& path, std::optional<bool> lowercase);
/// Refuses a tokenizer.json of BERT whose tokenizer_config.json asks for another text: there
/// transformers follows that one.
void require_bert_config(const TokenizerFile& file);
/// The tokens of its text; `name` is for errors.
BpeFiles parse_vocab_txt(std::string_view text, const std::string& name);

}  // namespace tessera

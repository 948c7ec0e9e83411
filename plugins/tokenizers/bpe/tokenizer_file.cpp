#include "tokenizer_file.hpp"

#include <algorithm>
#include <unordered_map>

#include "json_part.hpp"
#include "tessera/error.hpp"
#include "tessera/io/parse_json.hpp"
#include "tessera/io/written.hpp"
#include "tokenizer_steps.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;
using Ids = std::unordered_map<std::string, i64>;

void read_tokens(const JsonPart& vocab, BpeFiles& files) {
  vocab.require_object();
  const nlohmann::json& tokens = vocab.json();
  if (tokens.empty()) vocab.refuse("has no tokens");
  files.tokens.reserve(tokens.size());
  for (const auto& [token, id] : tokens.items()) {
    if (!id.is_number_unsigned() || id.get<u64>() > static_cast<u64>(INT32_MAX)) {
      vocab.refuse(fmt::format("gives {} the id {}, which is not a number from 0 to {}",
                               quote(token),
                               written_plain(id.dump()),
                               INT32_MAX));
    }
    files.tokens.emplace_back(token, id.get<i64>());
  }
}

void read_merges(const JsonPart& merges, BpeFiles& files) {
  for (const JsonPart& merge : merges.elements()) {
    const nlohmann::json& json = merge.json();
    BpeFiles::Merge made;
    if (json.is_array() && json.size() == 2 && json[0].is_string() && json[1].is_string()) {
      made = {json[0].get<std::string>(), json[1].get<std::string>(), files.file};
    } else {
      const std::string line = json.is_string() ? json.get<std::string>() : std::string();
      const std::size_t space = line.find(' ');
      if (space == line.npos || line.find(' ', space + 1) != line.npos) {
        merge.refuse(fmt::format("{} is not two tokens: \"a b\" or [\"a\", \"b\"]",
                                 written_plain(json.dump())));
      }
      made = {line.substr(0, space), line.substr(space + 1), files.file};
    }
    if (made.left.empty() || made.right.empty()) merge.refuse("has an empty token");
    files.merges.push_back(std::move(made));
  }
}

void read_word_piece(const JsonPart& model, TokenizerFile& file) {
  model.only(
      {"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"});
  file.unknown = model["unk_token"].text();
  file.pieces.emplace();
  file.pieces->prefix = model["continuing_subword_prefix"].text();
  file.pieces->most_characters = model["max_input_chars_per_word"].integer();
  read_tokens(model["vocab"], file.bpe);
}

void read_model(const JsonPart& model, TokenizerFile& file) {
  if (model["type"].json() == nlohmann::json("WordPiece")) return read_word_piece(model, file);
  model.only({"type",
              "dropout",
              "unk_token",
              "continuing_subword_prefix",
              "end_of_word_suffix",
              "fuse_unk",
              "byte_fallback",
              "ignore_merges",
              "vocab",
              "merges"});
  // Early files leave the type out; no other one has merges.
  const JsonPart type = model["type"];
  if (!type.is_null() || model["merges"].is_null()) {
    if (type.text() != "BPE") type.unknown();
  }
  const JsonPart dropout = model["dropout"];
  if (!dropout.is_null() && dropout.json() != nlohmann::json(0)) {
    dropout.refuse(fmt::format("{} would change the tokens of a text from time to time",
                               written_plain(dropout.json().dump())));
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const JsonPart part = model[key];
    if (!part.is_null() && !part.text().empty()) part.unknown();
  }
  if (!model["unk_token"].is_null()) file.unknown = model["unk_token"].text();
  file.fuse_unknown = model["fuse_unk"].flag(false);
  file.byte_fallback = model["byte_fallback"].flag(false);
  file.whole_words = model["ignore_merges"].flag(false);
  read_tokens(model["vocab"], file.bpe);
  read_merges(model["merges"], file.bpe);
}

// What is not in the model's vocabulary must have the id that the package tokenizers gives it,
// whatever the file says: the next one.
void read_added(const JsonPart& added, BpeFiles& files) {
  if (added.is_null()) return;
  Ids ids(files.tokens.begin(), files.tokens.end());
  const auto count = static_cast<i64>(ids.size());
  i64 largest = -1;
  for (const JsonPart& part : added.elements()) {
    part.only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    AddedToken token{.text = part["content"].text(),
                     .id = part["id"].integer(),
                     .single_word = part["single_word"].flag(),
                     .lstrip = part["lstrip"].flag(),
                     .rstrip = part["rstrip"].flag(),
                     .normalized = part["normalized"].flag(),
                     .special = part["special"].flag()};
    if (token.text.empty()) part["content"].refuse("is empty");
    const auto [known, fresh] = ids.try_emplace(token.text, std::max(largest + 1, count));
    if (known->second != token.id) {
      part["id"].refuse(fmt::format("{} is not {}, which {} has in the vocabulary or comes next",
                                    token.id,
                                    known->second,
                                    quote(token.text)));
    }
    largest = std::max(largest, token.id);
    files.added.push_back(std::move(token));
  }
}

}  // namespace

TokenizerFile parse_tokenizer(std::string_view text, const std::string& name) {
  const auto json = parse_json_object<nlohmann::json, ConfigError>(text, "tokenizer.path: " + name);
  const JsonPart whole(json, name, "");
  // Truncation and padding are asked for in each call.
  whole.only({"version",
              "truncation",
              "padding",
              "added_tokens",
              "normalizer",
              "pre_tokenizer",
              "post_processor",
              "decoder",
              "model"});
  if (!whole["version"].is_null() && whole["version"].text() != "1.0") whole["version"].unknown();
  TokenizerFile file;
  file.bpe.file = name;
  read_model(whole["model"], file);
  read_added(whole["added_tokens"], file.bpe);
  file.normalizer = normalizer_steps(whole["normalizer"]);
  file.pre_tokenizer = split_steps(whole["pre_tokenizer"]);
  file.decoder = decoder_steps(whole["decoder"]);
  require_known_post_processor(whole["post_processor"]);
  return file;
}

TokenizerFile read_tokenizer(const fs::path& path) {
  std::error_code error;
  const fs::path file = fs::is_directory(path, error) ? path / "tokenizer.json" : path;
  if (!fs::exists(file, error)) {
    fail_config("tokenizer.path: {} {}; give a tokenizer.json, or its folder",
                written_path(file),
                error ? "cannot be read: " + error.message() : "does not exist");
  }
  return parse_tokenizer(read_tokenizer_file(file), file.string());
}

}  // namespace tessera

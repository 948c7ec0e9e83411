#include "vocab_txt.hpp"

#include <algorithm>
#include <unordered_map>

#include "bert_text.hpp"
#include "named_text.hpp"
#include "tessera/error.hpp"
#include "tessera/io/claims.hpp"
#include "tessera/io/written.hpp"
#include "unicode.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;
using Ids = std::unordered_map<std::string, i64>;
constexpr std::string_view kWordPiece = "the tokenizer wordpiece";

// What a file beside it calls a token has to be one.
void require_listed(const Claims& claims,
                    const std::string& key,
                    const Value& text,
                    const Ids& ids) {
  const auto* token = std::get_if<std::string>(&text.data);
  if (token != nullptr && ids.contains(*token)) return;
  fail_config(
      "tokenizer.path: {}: {} is {}, which vocab.txt does not have; a tokenizer.json may "
      "add tokens (type = \"huggingface\")",
      claims.file(),
      quote(key),
      written_plain(text.text()));
}

Claims claims_if_there(const fs::path& file) {
  std::error_code error;
  if (!fs::exists(file, error)) return {file.string(), {}};
  return {file.string(), parse_settings(read_tokenizer_file(file), file.string())};
}

void claim_tokens(Claims& claims, const Ids& ids) {
  for (const auto& [key, value] : claims.all()) {
    if (key.starts_with("added_tokens_decoder.")) {
      if (key.ends_with(".content")) require_listed(claims, key, value, ids);
      for (const char* flag : {".lstrip", ".rstrip", ".single_word"}) {
        if (key.ends_with(flag)) claims.only(key, false);
      }
      claims.harmless({key});
    } else if (key == "additional_special_tokens" || key == "extra_special_tokens") {
      claims.only(key, Value::Array{});
    }
  }
  for (const auto& [role, usual] : kBertRoles) {
    for (const char* flag : {".lstrip", ".rstrip", ".single_word"}) {
      claims.only(std::string(role) + flag, false);
    }
    claims.harmless({std::string(role) + "*"});  // named_text() reads it
  }
}

BertText claim_config(Claims& claims, std::optional<bool> lowercase) {
  claims.only("do_basic_tokenize", true);
  claims.only("never_split", Value::Array{});
  claims.refuse("auto_map*", "tokenizers with code of their own are not read");
  for (const char* key : {"tokenizer_class",
                          "model_max_length",
                          "max_length",
                          "max_len",
                          "backend",
                          "is_local",
                          "local_files_only",
                          "name_or_path",
                          "_name_or_path",
                          "processor_class",
                          "clean_up_tokenization_spaces",
                          "model_input_names",
                          "padding*",
                          "truncation*",
                          "pad_token_type_id",
                          "pad_to_multiple_of",
                          "stride",
                          "special_tokens_map_file",
                          "tokenizer_file",
                          "vocab_file",
                          "use_fast",
                          "from_slow",
                          "init_inputs",
                          "transformers_version",
                          "tokenizers_version",
                          "pad_to_max_length",
                          "chat_template*"}) {
    claims.harmless({key});
  }
  BertText text;
  const bool said = claims.flag("do_lower_case", true);
  text.lowercase = lowercase.value_or(said);
  text.strip_accents = claims.flag("strip_accents", text.lowercase);
  text.space_ideographs = claims.flag("tokenize_chinese_chars", true);
  return text;
}

void add_roles(const fs::path& folder, const Ids& ids, TokenizerFile& file) {
  for (const auto& [role, usual] : kBertRoles) {
    const NamedText named = named_text(folder, std::string(role));
    const std::string text = named.text.value_or(std::string(usual));
    const auto found = ids.find(text);
    if (found == ids.end()) {
      fail_config(
          "tokenizer.path: {} has no {}, the {} of BERT", file.bpe.file, written_plain(text), role);
    }
    if (role == "unk_token") file.unknown = text;
    file.bpe.added.push_back({.text = text, .id = found->second, .special = true});
  }
  std::ranges::sort(file.bpe.added, {}, &AddedToken::id);
}

}  // namespace

BpeFiles parse_vocab_txt(std::string_view text, const std::string& name) {
  BpeFiles files;
  files.file = name;
  Ids ids;
  for (std::size_t begin = 0, line = 1; begin < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string token(text.substr(begin, end - begin));
    begin = end + 1;
    if (token.ends_with('\r')) token.pop_back();
    const auto refuse = [&](std::string_view why) {
      fail_config("tokenizer.path: {}:{}: {}", files.file, line, why);
    };
    if (token.empty()) refuse("there is no token on this line");
    if (valid_length(token) != token.size()) refuse("the token is no UTF-8");
    const auto [known, fresh] = ids.emplace(token, static_cast<i64>(files.tokens.size()));
    if (!fresh) refuse(fmt::format("{} is on line {} too", quote(token), known->second + 1));
    files.tokens.emplace_back(std::move(token), known->second);
  }
  if (ids.empty()) fail_config("tokenizer.path: {} has no tokens", files.file);
  return files;
}

TokenizerFile read_vocab_txt(const fs::path& path, std::optional<bool> lowercase) {
  std::error_code error;
  const fs::path place = fs::is_directory(path, error) ? path / "vocab.txt" : path;
  if (!fs::exists(place, error)) {
    fail_config("tokenizer.path: {} {}; give a vocab.txt, or its folder",
                written_path(place),
                error ? "cannot be read: " + error.message() : "does not exist");
  }
  require_categories("the text of BERT");
  TokenizerFile file;
  file.bpe = parse_vocab_txt(read_tokenizer_file(place), place.string());
  const Ids ids(file.bpe.tokens.begin(), file.bpe.tokens.end());
  const fs::path folder = place.parent_path();
  Claims config = claims_if_there(folder / "tokenizer_config.json"),
         map = claims_if_there(folder / "special_tokens_map.json"),
         more = claims_if_there(folder / "added_tokens.json");
  const BertText text = claim_config(config, lowercase);
  for (Claims* claims : {&config, &map}) {
    claim_tokens(*claims, ids);
    claims->require_known(kWordPiece);
  }
  for (const auto& [token, id] : more.all()) {
    const auto found = ids.find(token);
    if (found == ids.end() || id != Value(found->second)) {
      require_listed(more, token, Value(), ids);
    }
  }
  add_roles(folder, ids, file);
  file.pieces = PieceRules{.prefix = "##"};
  file.normalizer = bert_steps(text);
  file.pre_tokenizer = bert_splits();
  DecoderStep joined;
  joined.kind = DecoderStep::Kind::word_piece;
  joined.text = file.pieces->prefix;
  joined.clean_up = true;
  file.decoder = {joined};
  return file;
}

}  // namespace tessera

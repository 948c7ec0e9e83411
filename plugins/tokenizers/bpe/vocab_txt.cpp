#include "vocab_txt.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "bert_text.hpp"
#include "named_text.hpp"
#include "special_tokens.hpp"
#include "tessera/error.hpp"
#include "tessera/io/claims.hpp"
#include "tessera/io/written.hpp"
#include "unicode.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;
using Ids = std::unordered_map<std::string, i64>;
constexpr std::string_view kWordPiece = "the tokenizer wordpiece";

// Tokens that the files beside it list, by text.
using ListedTokens = std::map<std::string, AddedToken>;

// What a file beside it calls a token has to be one.
AddedToken& listed(const Claims& claims,
                   const std::string& key,
                   const Value& value,
                   const Ids& ids,
                   ListedTokens& added) {
  const auto* text = std::get_if<std::string>(&value.data);
  const auto found = text == nullptr ? ids.end() : ids.find(*text);
  if (found == ids.end()) {
    fail_config(
        "tokenizer.path: {}: {} is {}, which vocab.txt does not have; a tokenizer.json may "
        "add tokens (type = \"huggingface\")",
        claims.file(),
        quote(key),
        written_plain(value.text()));
  }
  AddedToken& token = added[*text];
  token.text = *text;
  token.id = found->second;
  return token;
}

void require_id(const Claims& claims, const AddedToken& token, const std::string& said) {
  if (said == std::to_string(token.id)) return;
  fail_config("tokenizer.path: {} gives {} the id {}, and vocab.txt {}",
              claims.file(),
              quote(token.text),
              written_plain(said),
              token.id);
}

Claims claims_if_there(const fs::path& file) {
  std::error_code error;
  return fs::exists(file, error) ? claims_of_file(file) : Claims(file.string(), {});
}

void claim_decoder_of_bert(Claims& claims, const Ids& ids, ListedTokens& added) {
  for_decoder_tokens(claims,
                     [&](const std::string& entry, const std::string& id, const Value& text) {
                       const std::string key = entry + ".content";
                       AddedToken& token = listed(claims, key, text, ids, added);
                       require_id(claims, token, id);
                       token.special = claims.flag(entry + ".special", false);
                       token.normalized = claims.flag(entry + ".normalized", !token.special);
                       token.lstrip = claims.flag(entry + ".lstrip", false);
                       token.rstrip = claims.flag(entry + ".rstrip", false);
                       token.single_word = claims.flag(entry + ".single_word", false);
                       claims.harmless({key, entry + ".__type"});
                     });
}

void claim_tokens(Claims& claims, const Ids& ids, ListedTokens& added) {
  claim_decoder_of_bert(claims, ids, added);
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
    const Value* list = claims.find(key);
    if (list == nullptr) continue;
    const auto* texts = std::get_if<Value::Array>(&list->data);
    if (texts == nullptr) listed(claims, key, *list, ids, added);
    for (const Value& text : *texts) listed(claims, key, text, ids, added).special = true;
  }
  for (const auto& [role, usual] : kBertRoles) {
    for (const char* flag : {".lstrip", ".rstrip", ".single_word"}) {
      claims.only(std::string(role) + flag, false);
    }
    claims.harmless({std::string(role) + "*"});  // named_text() reads it
  }
}

// Models that take BERT's tokens; others' classes may cut words in their own way.
void claim_class(Claims& claims) {
  const Value* own = claims.find("tokenizer_class");
  if (own == nullptr) return;
  for (const std::string model : {"Bert",
                                  "ConvBert",
                                  "DistilBert",
                                  "Electra",
                                  "Funnel",
                                  "LayoutLM",
                                  "Lxmert",
                                  "MobileBert",
                                  "SqueezeBert"}) {
    for (const char* end : {"Tokenizer", "TokenizerFast"}) {
      if (*own == Value(model + end)) return;
    }
  }
  fail_config("{} has tokenizer_class = {}, which {} does not do",
              claims.file(),
              written_plain(own->text()),
              kWordPiece);
}

BertText claim_bert_config(Claims& claims, std::optional<bool> lowercase) {
  claim_class(claims);
  claims.only("do_basic_tokenize", true);
  claims.only("never_split", Value::Array{});
  claim_usual_keys(claims);
  claims.harmless({"pad_to_max_length"});
  BertText text;
  const bool said = claims.flag("do_lower_case", true);
  text.lowercase = lowercase.value_or(said);
  text.strip_accents = claims.flag("strip_accents", text.lowercase);
  text.space_ideographs = claims.flag("tokenize_chinese_chars", true);
  return text;
}

void add_roles(const fs::path& folder, const Ids& ids, ListedTokens& added, TokenizerFile& file) {
  for (const auto& [role, usual] : kBertRoles) {
    const NamedText named = named_text(folder, std::string(role));
    const std::string text = named.text.value_or(std::string(usual));
    const auto found = ids.find(text);
    if (found == ids.end()) {
      fail_config(
          "tokenizer.path: {} has no {}, the {} of BERT", file.bpe.file, written_plain(text), role);
    }
    if (role == "unk_token") file.unknown = text;
    added[text] = {.text = text, .id = found->second, .special = true};
  }
  for (const auto& [text, token] : added) file.bpe.added.push_back(token);
  std::ranges::sort(file.bpe.added, {}, &AddedToken::id);
}

}  // namespace

void require_bert_config(const TokenizerFile& file) {
  Claims claims = claims_if_there(fs::path(file.bpe.file).parent_path() / "tokenizer_config.json");
  const auto has = [&](NormalizerStep::Kind kind) {
    return std::ranges::find(file.normalizer, kind, &NormalizerStep::kind) != file.normalizer.end();
  };
  using Kind = NormalizerStep::Kind;
  for (const auto& [key, here] : {std::pair{"do_lower_case", has(Kind::lowercase)},
                                  {"strip_accents", has(Kind::strip_marks)},
                                  {"tokenize_chinese_chars", has(Kind::space_ideographs)}}) {
    if (claims.flag(key, here) == here) continue;
    fail_config(
        "tokenizer.path: {} has {} = {}, and the normalizer of {} does the opposite: transformers "
        "follows the first file; make them say the same",
        claims.file(),
        key,
        !here,
        fs::path(file.bpe.file).filename().string());
  }
}

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
  const BertText text = claim_bert_config(config, lowercase);
  ListedTokens added;
  for (const auto& [token, id] : more.all()) {
    AddedToken& one = listed(more, token, Value(token), ids, added);
    require_id(more, one, id.text());
    one.normalized = true;
  }
  for (Claims* claims : {&config, &map}) {
    claim_tokens(*claims, ids, added);
    claims->require_known(kWordPiece);
  }
  add_roles(folder, ids, added, file);
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

#include "gpt2_tokenizer.hpp"

#include <algorithm>

#include "named_text.hpp"
#include "special_tokens.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/bounds.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"
#include "tessera/log.hpp"
#include "word_encoder.hpp"

namespace tessera {

void Gpt2Tokenizer::Config::describe(Schema<Config>& s) {
  s.field(
       "path",
       &Config::path,
       "folder with tokenizer.json, or with vocab.json and merges.txt; what tokenizer_config.json "
       "and its like say beside them holds too")
      .is_path()
      .required()
      .megatron("--vocab-file")
      .also("--merge-file", "is {} here, the folder of both files");
  s.field("special",
          &Config::special,
          "texts that are one token where texts are parsed, if the vocabulary has them; \"auto\": "
          "those that the files name, or <|endoftext|> where there are vocab.json and merges.txt "
          "only");
  s.field(
       "most_tokens",
       &Config::most_tokens,
       "rows of a model that has fewer than the files have tokens: special texts with larger ids "
       "are no tokens; \"none\": all are",
       "none")
      .at_least(1)
      .at_most(kMostVocabulary);
}

namespace {

// The texts of `config`, or of the files beside the vocabulary.
std::vector<AddedToken> special_of(const Gpt2Tokenizer::Config& config, const BpeFiles& files) {
  std::optional<std::vector<AddedToken>> told = special_tokens(config.path, files);
  if (!told || config.special) {
    std::vector<AddedToken> listed;
    for (const std::string& text :
         config.special.value_or(std::vector<std::string>{"<|endoftext|>"})) {
      if (text.empty()) fail_config("tokenizer.special: an empty text is not a token");
      if (told) {
        const auto one = std::ranges::find(*told, text, &AddedToken::text);
        if (one != told->end()) {
          listed.push_back(*one);
          continue;
        }
      }
      const auto found = std::ranges::find(
          files.tokens, text, [](const auto& token) -> const std::string& { return token.first; });
      if (found == files.tokens.end()) continue;
      listed.push_back({.text = text, .id = found->second, .special = true});
    }
    for (const AddedToken& token : told.value_or(listed)) {
      if (std::ranges::find(listed, token.text, &AddedToken::text) != listed.end()) continue;
      fail_config(
          "tokenizer.special leaves out {}, which the files of {} make one token: add it, or leave "
          "tokenizer.special out",
          quote(token.text),
          config.path);
    }
    if (told && listed.size() > told->size()) {
      fail_config(
          "tokenizer.special has more texts than the files of {} make one token: leave it out, or "
          "add them to tokenizer_config.json",
          config.path);
    }
    told = std::move(listed);
  }
  if (!config.most_tokens) return *told;
  std::erase_if(*told, [&](const AddedToken& token) {
    if (token.id < *config.most_tokens) return false;
    log_warning("tokenizer.most_tokens = {}: the files of {} number {} {}; it is read as text",
                *config.most_tokens,
                config.path,
                quote(token.text),
                token.id);
    return true;
  });
  return *told;
}

std::optional<i32> named_token(const std::vector<AddedToken>& special,
                               const std::string& folder,
                               const char* key,
                               const std::optional<std::string>& otherwise) {
  const NamedText named = named_text(folder, key);
  const std::optional<std::string> text = named.said ? named.text : otherwise;
  const auto found = std::ranges::find_if(
      special, [&](const AddedToken& token) { return text && token.text == *text; });
  if (found == special.end()) return std::nullopt;
  return static_cast<i32>(found->id);
}

}  // namespace

Gpt2Tokenizer::Gpt2Tokenizer(const Config& config, const BpeFiles& files)
    : Gpt2Tokenizer(config, files, special_of(config, files)) {}

Gpt2Tokenizer::Gpt2Tokenizer(const Config& config,
                             const BpeFiles& files,
                             const std::vector<AddedToken>& special)
    : words_("gpt2"),
      vocabulary_(files, special, VocabularyKind::every_byte),
      first_symbols_(vocabulary_, rules_),
      special_(special) {
  std::vector<AddedToken> ordered = special;  // the longest first, as fingerprints have it
  std::ranges::stable_sort(
      ordered, std::greater<>(), [](const AddedToken& token) { return token.text.size(); });
  std::string texts;
  for (const AddedToken& token : ordered) {
    texts += fmt::format("{} {} {}{}\n",
                         token.id,
                         token.text.size(),
                         token.text,
                         token.special ? "" : " not special");
  }
  // Words are split by one pattern, which "gpt2" stands for.
  fingerprint_ =
      fmt::format("gpt2: {} tokens, {:016x}", vocabulary(), hash64(texts, vocabulary_.hash()));
  // GPT-2's class in transformers has one text for both ends, where the files say nothing.
  constexpr const char* kEnd = "<|endoftext|>";
  special_ids_.bos = named_token(special, config.path, "bos_token", kEnd);
  special_ids_.eod = named_token(special, config.path, "eos_token", kEnd);
  special_ids_.pad = named_token(special, config.path, "pad_token", {});
  if (special_ids_.eod) special_ids_.eos = {*special_ids_.eod};
}

void Gpt2Tokenizer::append(std::string_view text,
                           SpecialTexts special,
                           WordEncoder& words,
                           std::vector<i32>& ids) const {
  special_.for_each(text, special, [&](std::string_view part, i32 id) {
    if (id >= 0) return ids.push_back(id);
    words_.for_each(part, [&](std::string_view word) { words.encode(word, ids); });
  });
}

std::string Gpt2Tokenizer::do_decode(const std::vector<i32>& ids) const {
  std::string text;
  for (const i32 id : ids) {
    require(id >= 0 && id < vocabulary_.size(),
            "tokenizer gpt2: the ids are 0 to {}, not {}",
            vocabulary_.size() - 1,
            id);
    text += vocabulary_.token(id);
  }
  return text;
}

}  // namespace tessera

#include "huggingface_tokenizer.hpp"

#include <algorithm>
#include <filesystem>

#include "bert_text.hpp"
#include "named_text.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/bounds.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"
#include "tessera/log.hpp"
#include "unicode.hpp"
#include "vocab_txt.hpp"
#include "word_encoder.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;

// Reads the file; added tokens that a model has no rows for become text.
TokenizerFile file_of(const HuggingFaceTokenizer::Config& config) {
  TokenizerFile file = read_tokenizer(config.path);
  if (file.pieces) require_bert_config(file);
  if (!config.most_tokens) return file;
  std::erase_if(file.bpe.added, [&](const AddedToken& token) {
    if (token.id < *config.most_tokens) return false;
    log_warning("tokenizer.most_tokens = {}: {} numbers {} {}; it is read as text",
                *config.most_tokens,
                file.bpe.file,
                quote(token.text),
                token.id);
    return true;
  });
  return file;
}

// Checks and warns of texts that have no tokens.
BpeRules rules_of(const TokenizerFile& file, const Vocabulary& vocabulary, bool bytes) {
  BpeRules rules{.bytes = bytes,
                 .byte_fallback = file.byte_fallback,
                 .fuse_unknown = file.fuse_unknown,
                 .whole_words = file.whole_words,
                 .pieces = file.pieces};
  if (file.pieces && bytes) {
    fail_config("tokenizer.path: {}: pre_tokenizer ByteLevel is not known with model WordPiece",
                file.bpe.file);
  }
  bool complete = bytes || file.byte_fallback;
  for (unsigned byte = 0; byte < 256; ++byte) {
    complete = complete && (bytes ? vocabulary.of_byte(static_cast<unsigned char>(byte)) >= 0
                                  : vocabulary.find(fmt::format("<0x{:02X}>", byte)) >= 0);
  }
  if (!file.unknown.empty()) rules.unknown = vocabulary.find(file.unknown);
  if (rules.unknown >= 0 || (complete && !file.pieces)) return rules;
  if (!file.unknown.empty() || file.pieces) {
    fail_config("tokenizer.path: {}: model.unk_token {} is not in model.vocab",
                file.bpe.file,
                quote(file.unknown));
  }
  log_warning(
      "tokenizer.path: {}: not every character has a token, and model.unk_token is missing: "
      "such characters are left out of texts",
      file.bpe.file);
  return rules;
}

std::string written(const PatternText& pattern) {
  return fmt::format("{} {} {}", pattern.regex, pattern.text.size(), pattern.text);
}

// The token that the files beside tokenizer.json name as `key`.
std::optional<i32> named_token(const TokenizerFile& file,
                               const Vocabulary& vocabulary,
                               bool all,
                               const char* key) {
  NamedText named = named_text(fs::path(file.bpe.file).parent_path(), key);
  if (!named.said && file.pieces) {
    const auto usual = std::ranges::find(kBertRoles, std::string_view(key), &BertRole::key);
    if (usual == std::end(kBertRoles) || vocabulary.find(usual->text) < 0) return std::nullopt;
    named.text = usual->text;
  }
  if (!named.text) return std::nullopt;
  const auto added = std::ranges::find(file.bpe.added, *named.text, &AddedToken::text);
  if (added != file.bpe.added.end()) return static_cast<i32>(added->id);
  if (const i32 id = vocabulary.find(*named.text); id >= 0) return id;
  log_warning("tokenizer.path: the files beside {} have {} = {}, which is none of its tokens{}",
              file.bpe.file,
              key,
              quote(*named.text),
              all ? "" : " below tokenizer.most_tokens");
  return std::nullopt;
}

// All that decides ids beyond the vocabulary.
std::string meaning(const TokenizerFile& file, const BpeRules& rules) {
  std::string all = fmt::format("{} {} {} {} {}\n",
                                rules.bytes,
                                rules.byte_fallback,
                                rules.fuse_unknown,
                                rules.whole_words,
                                rules.unknown);
  if (file.pieces) {
    all += fmt::format("pieces {} {}\n", file.pieces->most_characters, file.pieces->prefix);
  }
  for (const AddedToken& token : file.bpe.added) {
    all += fmt::format("token {} {} {} {} {} {} {}\n",
                       token.id,
                       token.single_word,
                       token.lstrip,
                       token.rstrip,
                       token.normalized,
                       token.text.size(),
                       token.text + (token.special ? "" : " not special"));
  }
  for (const NormalizerStep& step : file.normalizer) {
    all += fmt::format("normalizer {} {} {} {}\n",
                       static_cast<int>(step.kind),
                       step.text.size(),
                       step.text,
                       written(step.pattern));
  }
  for (const SplitStep& step : file.pre_tokenizer) {
    all += fmt::format("cut {} {} {} {} {} {} {} {}\n",
                       static_cast<int>(step.kind),
                       written(step.pattern),
                       static_cast<int>(step.behavior),
                       step.invert,
                       step.cut,
                       step.each,
                       static_cast<int>(step.prefix),
                       step.replacement);
  }
  return all;
}

}  // namespace

void HuggingFaceTokenizer::Config::describe(Schema<Config>& s) {
  s.field("path",
          &Config::path,
          "a tokenizer.json of a BPE or WordPiece model, or the folder that has it")
      .is_path()
      .required();
  s.field("most_tokens",
          &Config::most_tokens,
          "rows of a model that has fewer than the file has tokens: added tokens with larger ids "
          "are no tokens; \"none\": all are",
          "none")
      .at_least(1)
      .at_most(kMostVocabulary);
}

HuggingFaceTokenizer::HuggingFaceTokenizer(const Config& config, TokenizerArguments&)
    : HuggingFaceTokenizer(file_of(config), !config.most_tokens) {}

HuggingFaceTokenizer::HuggingFaceTokenizer(const TokenizerFile& file, bool all)
    : HuggingFaceTokenizer(file) {
  for (const auto& [role, key] : {std::pair{&special_ids_.bos, "bos_token"},
                                  {&special_ids_.eod, "eos_token"},
                                  {&special_ids_.pad, "pad_token"},
                                  {&special_ids_.cls, "cls_token"},
                                  {&special_ids_.sep, "sep_token"},
                                  {&special_ids_.mask, "mask_token"}}) {
    *role = named_token(file, vocabulary_, all, key);
  }
  if (rules_.unknown >= 0) special_ids_.unk = rules_.unknown;
  if (special_ids_.eod) special_ids_.eos = {*special_ids_.eod};
}

HuggingFaceTokenizer::HuggingFaceTokenizer(const TokenizerFile& file)
    : normalizer_(file.normalizer),
      pre_tokenizer_(file.pre_tokenizer, alphabet_),
      decoder_(file.decoder, alphabet_),
      vocabulary_(file.bpe, file.bpe.added, VocabularyKind::as_written),
      rules_(rules_of(file, vocabulary_, pre_tokenizer_.bytes())),
      first_symbols_(vocabulary_, rules_),
      as_written_(looked_for(file, false)),
      normalized_(looked_for(file, true)),
      fingerprint_(fmt::format("{}: {} tokens, {:016x}",
                               file.pieces ? "wordpiece" : "huggingface",
                               vocabulary_.size(),
                               hash64(meaning(file, rules_), vocabulary_.hash()))) {
  if (normalized_.empty()) bert_words_ = BertWords::of(file);
  for (const AddedToken& token : looked_for(file, true)) {
    as_found_.emplace(static_cast<i32>(token.id), token.text);
  }
}

// Special ones first: of equal texts the first is found.
std::vector<AddedToken> HuggingFaceTokenizer::looked_for(const TokenizerFile& file,
                                                         bool normalized) const {
  std::vector<AddedToken> tokens;
  for (const bool special : {true, false}) {
    for (const AddedToken& token : file.bpe.added) {
      if (token.normalized != normalized || token.special != special) continue;
      tokens.push_back(token);
      if (normalized) tokens.back().text = normalizer_(token.text);
    }
  }
  return tokens;
}

void HuggingFaceTokenizer::append(std::string_view text,
                                  SpecialTexts special,
                                  WordEncoder& encoder,
                                  std::vector<i32>& ids) const {
  const PreTokenizer::Take word = [&](std::string_view part) { encoder.encode(part, ids); };
  const auto characters = [&](std::string_view run) {
    const bool begins = run.data() == text.data();
    std::string changed;
    if (!normalizer_.changes_nothing()) {
      changed = normalizer_(run);
      run = changed;
    }
    normalized_.for_each(run, special, [&](std::string_view part, i32 id) {
      if (id >= 0) return ids.push_back(id);
      pre_tokenizer_.for_each(part, begins && part.data() == run.data(), word);
    });
  };
  as_written_.for_each(text, special, [&](std::string_view part, i32 id) {
    if (id >= 0) return ids.push_back(id);
    for_runs(part, [&](std::string_view run, bool utf8) {
      if (utf8 && bert_words_) {
        return bert_words_->for_each(
            run, [&](std::string_view one) { encoder.encode(one, ids); }, characters);
      }
      if (utf8) return characters(run);
      encoder.encode(pre_tokenizer_.word_of(run), ids);
    });
  });
}

bool HuggingFaceTokenizer::do_continues_word(i32 id) const {
  return rules_.pieces && !rules_.pieces->prefix.empty() &&
         vocabulary_.token(id).starts_with(rules_.pieces->prefix);
}

std::string HuggingFaceTokenizer::do_decode(const std::vector<i32>& ids) const {
  std::vector<std::string> tokens;
  for (const i32 id : ids) {
    require(id >= 0 && id < vocabulary_.size(),
            "tokenizer {}: the ids are 0 to {}, not {}",
            rules_.pieces ? "wordpiece" : "huggingface",
            vocabulary_.size() - 1,
            id);
    const auto changed = as_found_.find(id);
    const std::string& token = changed == as_found_.end() ? vocabulary_.token(id) : changed->second;
    if (!token.empty()) tokens.push_back(token);  // no token has an id in a gap
  }
  return decoder_(std::move(tokens));
}

}  // namespace tessera

#include "special_tokens.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "tessera/error.hpp"
#include "tessera/io/claims.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;
constexpr std::array<const char*, 7> kNamed = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

// Tokens that the files add to the vocabulary, by text.
class Added {
 public:
  explicit Added(const BpeFiles& files) : file_(files.file) {
    for (const auto& [token, id] : files.tokens) ids_[token] = id;
    for (const AddedToken& token : files.added) {
      add(token.text, token.id, token.special, files.file);
    }
  }
  void add(const std::string& text, i64 id, bool special, const std::string& file) {
    const auto [known, fresh] = ids_.try_emplace(text, id);
    if (known->second != id) {
      fail_config("tokenizer.path: {} gives {} the id {}, and {} {}",
                  file,
                  quote(text),
                  id,
                  file_,
                  known->second);
    }
    AddedToken& token = tokens_[text];
    token.text = text;
    token.id = id;
    token.special = token.special || special;
  }
  // A special token that is named without an id: that of the vocabulary, or else the next one, as
  // transformers gives it.
  void name(const std::string& text, const std::string& file) {
    const auto found = ids_.find(text);
    if (found != ids_.end()) return add(text, found->second, true, file);
    unknown_[text] = file;
  }
  bool knows(const std::string& text) const { return ids_.contains(text); }
  std::vector<AddedToken> all() {
    if (unknown_.size() > 1) {
      fail_config("tokenizer.path: {} names {} and {}, which have no ids in {}",
                  unknown_.begin()->second,
                  quote(unknown_.begin()->first),
                  quote(unknown_.rbegin()->first),
                  file_);
    }
    for (const auto& [text, file] : unknown_) add(text, static_cast<i64>(ids_.size()), true, file);
    std::vector<AddedToken> tokens;
    for (const auto& [text, token] : tokens_) tokens.push_back(token);
    return tokens;
  }

 private:
  std::string file_;
  std::map<std::string, i64, std::less<>> ids_;
  std::map<std::string, AddedToken> tokens_;    // what all() gives, by text
  std::map<std::string, std::string> unknown_;  // each with the file that names it
};

std::string text_of(const Claims& claims, const std::string& key, const Value& value) {
  const auto* text = std::get_if<std::string>(&value.data);
  if (text != nullptr && !text->empty()) return *text;
  fail_config(
      "{}: {} is {}, which is not a token", claims.file(), quote(key), written_plain(value.text()));
}

// A token is written as its text, or as an object with it.
void claim_token(Claims& claims, const std::string& key, Added& added) {
  for (const char* part : {".lstrip", ".rstrip", ".single_word"}) claims.only(key + part, false);
  claims.harmless({key + ".normalized", key + ".special", key + ".__type"});
  for (const std::string& name : {key, key + ".content"}) {
    if (const Value* value = claims.find(name)) {
      added.name(text_of(claims, name, *value), claims.file());
    }
  }
}

// An element of a list; an object is its JSON text there.
void claim_listed(const Claims& claims, const std::string& key, const Value& value, Added& added) {
  const std::string text = text_of(claims, key, value);
  if (!text.starts_with("{\"")) return added.name(text, claims.file());
  Settings inside;
  for (const auto& [part, said] : parse_settings(text, claims.file())) {
    inside[fmt::format("{}.{}", key, part)] = said;
  }
  Claims token(claims.file(), std::move(inside));
  claim_token(token, key, added);
  token.require_known(kReader);
}

void claim_named_tokens(Claims& claims, Added& added) {
  for (const char* key : kNamed) claim_token(claims, key, added);
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
    const Value* list = claims.find(key);
    if (list == nullptr) continue;
    const auto* texts = std::get_if<Value::Array>(&list->data);
    if (texts == nullptr) text_of(claims, key, *list);
    for (const Value& token : *texts) claim_listed(claims, key, token, added);
  }
  for (const auto& [key, value] : claims.all()) {
    const bool named = key.starts_with("model_specific_special_tokens.") ||
                       key.starts_with("extra_special_tokens.");
    if (!named) continue;
    added.name(text_of(claims, key, value), claims.file());
    claims.harmless({key});
  }
}

void claim_decoder(Claims& claims, Added& added) {
  for_decoder_tokens(
      claims, [&](const std::string& token, const std::string& number, const Value& value) {
        for (const char* part : {".lstrip", ".rstrip", ".single_word"}) {
          claims.only(token + part, false);
        }
        const std::string key = token + ".content";
        claims.harmless({key, token + ".normalized", token + ".__type"});
        const bool special = claims.flag(token + ".special", false);
        i64 id = -1;
        const char* end = number.data() + number.size();
        const auto [at, error] = std::from_chars(number.data(), end, id);
        if (error != std::errc() || at != end || id < 0 || id >= INT32_MAX) {
          fail_config("{}: {} is no id of a token", claims.file(), written_plain(token));
        }
        added.add(text_of(claims, key, value), id, special, claims.file());
      });
}

void claim_config(const fs::path& file, Added& added) {
  Claims claims = claims_of_file(file);
  const Value own = claims.get("tokenizer_class", "GPT2Tokenizer");
  const bool gpt2 = own == Value("GPT2Tokenizer") || own == Value("GPT2TokenizerFast");
  if (!gpt2 && own != Value("PreTrainedTokenizerFast") && own != Value("TokenizersBackend")) {
    fail_config(
        "{} has tokenizer_class = {}, which {} does not do", claims.file(), own.text(), kReader);
  }
  for (const char* key : {"add_prefix_space",
                          "add_bos_token",
                          "add_eos_token",
                          "split_special_tokens",
                          "do_lower_case",
                          "strip_accents"}) {
    claims.only(key, false);
  }
  claim_usual_keys(claims);
  claims.harmless({"errors", "merges_file", "trim_offsets", "legacy"});
  claim_decoder(claims, added);
  claim_named_tokens(claims, added);
  claims.require_known(kReader);
  if (!gpt2) return;
  const std::set<std::string> none = null_keys(file);
  const std::string end = "<|endoftext|>";  // what the class has for keys that are absent
  for (const char* key : {"bos_token", "eos_token", "unk_token"}) {
    const bool said = none.contains(key) || claims.find(key) != nullptr ||
                      claims.find(fmt::format("{}.content", key)) != nullptr;
    if (!said && added.knows(end)) added.name(end, claims.file());
  }
}

}  // namespace

Claims claims_of_file(const fs::path& file) {
  return {file.string(), parse_settings(read_tokenizer_file(file), file.string())};
}

void claim_usual_keys(Claims& claims) {
  claims.refuse("auto_map*", "tokenizers with code of their own are not read");
  claims.harmless({"model_max_length", "max_length", "max_len", "backend", "is_local"});
  claims.harmless({"local_files_only", "name_or_path", "_name_or_path", "processor_class"});
  claims.harmless({"clean_up_tokenization_spaces", "chat_template*", "model_input_names"});
  claims.harmless({"padding*", "truncation*", "pad_token_type_id", "pad_to_multiple_of", "stride"});
  claims.harmless({"special_tokens_map_file", "tokenizer_file", "vocab_file"});
  claims.harmless({"use_fast", "from_slow", "init_inputs"});
  claims.harmless({"transformers_version", "tokenizers_version"});
}

void for_decoder_tokens(
    const Claims& claims,
    const std::function<void(const std::string& entry, const std::string& id, const Value& text)>&
        take) {
  constexpr std::string_view kDecoder = "added_tokens_decoder.", kContent = ".content";
  for (const auto& [key, value] : claims.all()) {
    if (!key.starts_with(kDecoder) || !key.ends_with(kContent)) continue;
    const std::string entry = key.substr(0, key.size() - kContent.size());
    take(entry, entry.substr(kDecoder.size()), value);
  }
}

std::optional<std::vector<AddedToken>> special_tokens(const fs::path& folder,
                                                      const BpeFiles& files) {
  const fs::path config = folder / "tokenizer_config.json",
                 map = folder / "special_tokens_map.json", more = folder / "added_tokens.json";
  const bool one_file = fs::exists(folder / "tokenizer.json");
  if (!one_file && !fs::exists(config) && !fs::exists(map) && !fs::exists(more)) return {};
  Added added(files);
  if (fs::exists(more)) {
    Claims claims = claims_of_file(more);
    for (const auto& [text, value] : claims.all())
      added.add(text, claims.integer(text), false, more);
  }
  if (fs::exists(config)) claim_config(config, added);
  if (fs::exists(map)) {
    Claims claims = claims_of_file(map);
    claim_named_tokens(claims, added);
    claims.require_known(kReader);
  }
  const std::string end = "<|endoftext|>";
  if (!fs::exists(config) && added.knows(end)) added.name(end, files.file);
  return added.all();
}

}  // namespace tessera

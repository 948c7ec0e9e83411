#include "bpe_files.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tessera/error.hpp"
#include "tessera/io/claims.hpp"
#include "tessera/io/parse_json.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string place_of(const fs::path& file) { return "tokenizer.path: " + file.string(); }

Json parse_file(const fs::path& file) {
  return parse_json_object<Json, ConfigError>(read_tokenizer_file(file), place_of(file));
}

// null where a key is absent.
const Json& at(const Json& object, const char* key) {
  static const Json kNull;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found == object.end() ? kNull : *found;
}

// A part of tokenizer.json that is not GPT-2's.
[[noreturn]] void refuse(const fs::path& file, std::string_view key, const Json& value) {
  fail_config("{} has {} = {}, which {} does not do",
              place_of(file),
              key,
              written_plain(value.dump()),
              kReader);
}

void read_tokens(const Json& vocabulary, BpeFiles& files) {
  files.tokens.reserve(vocabulary.size());
  for (const auto& [token, id] : vocabulary.items()) {
    if (!id.is_number_unsigned() || id.get<u64>() >= static_cast<u64>(INT32_MAX)) {
      fail_config(
          "tokenizer.path: {} is damaged: the ids of its {} tokens must be 0 to {}, each once, but "
          "\"{}\" has {}",
          files.file,
          vocabulary.size(),
          vocabulary.size() - 1,
          written_plain(token),
          written_plain(id.dump()));
    }
    files.tokens.emplace_back(token, id.get<i64>());
  }
}

Claims claims_of(const Json& object, const std::string& place) {
  return {place, parse_settings(object.dump(), place)};
}

// "a b", of one line or one element.
void add_merge(const std::string& line, std::string place, BpeFiles& files) {
  const std::size_t space = line.find(' ');
  if (space == line.npos || space == 0 || space + 1 == line.size() ||
      line.find(' ', space + 1) != line.npos) {
    fail_config("tokenizer.path: {}: \"{}\" is not two tokens with a space between them",
                place,
                written_plain(line));
  }
  files.merges.push_back({line.substr(0, space), line.substr(space + 1), std::move(place)});
}

void read_merges(const fs::path& file, BpeFiles& files) {
  const std::string text = read_tokenizer_file(file);
  i64 number = 0;
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.pop_back();
    const bool heading = ++number == 1 && line.starts_with("#version");
    if (!heading && !line.empty()) {
      add_merge(line, fmt::format("{}:{}", file.string(), number), files);
    }
  }
}

void read_merges(const Json& merges, const fs::path& file, BpeFiles& files) {
  if (!merges.is_array()) refuse(file, "model.merges", merges);
  for (const Json& merge : merges) {
    if (merge.is_string()) {
      add_merge(merge.get<std::string>(), file.string(), files);
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      files.merges.push_back({merge[0], merge[1], file.string()});
    } else {
      refuse(file, "model.merges", merge);
    }
  }
}

void read_added(const Json& added, const fs::path& file, BpeFiles& files) {
  if (added.is_null()) return;
  if (!added.is_array()) refuse(file, "added_tokens", added);
  for (const Json& token : added) {
    const Json& text = at(token, "content");
    if (!text.is_string() || text == Json("") || !at(token, "id").is_number_unsigned()) {
      refuse(file, "added_tokens", token);
    }
    Claims claims = claims_of(token, fmt::format("{}: {}", place_of(file), text.dump()));
    for (const char* key : {"single_word", "lstrip", "rstrip"}) claims.only(key, false);
    claims.harmless({"content", "id", "normalized"});  // there is no normalizer
    const bool special = claims.flag("special", false);
    claims.require_known(kReader);
    files.added.push_back({.text = text, .id = token["id"].get<i64>(), .special = special});
  }
}

// A part of GPT-2's file that is there and has this type.
void require_type(Claims& claims, const std::string& part, const char* type) {
  const std::string key = part + ".type";
  claims.get(key);
  claims.only(key, type);
}

void claim_model(Claims& claims, bool has_merges) {
  // Early files, as that of GPT-2 itself, leave the type out; no other one has merges.
  if (!has_merges || claims.find("model.type") != nullptr) require_type(claims, "model", "BPE");
  for (const char* key : {"model.continuing_subword_prefix", "model.end_of_word_suffix"}) {
    claims.only(key, "");
  }
  claims.only("model.ignore_merges", false);
  if (const Value* dropout = claims.find("model.dropout"); dropout && *dropout != Value(0)) {
    claims.only("model.dropout", 0.0);
  }
  // Keys of tokens for bytes without one: every byte has one.
  claims.harmless({"model.unk_token", "model.fuse_unk", "model.byte_fallback"});
}

void claim_words(Claims& claims) {
  claims.refuse("normalizer*", "the tokenizer gpt2 changes no text");
  require_type(claims, "pre_tokenizer", "ByteLevel");
  claims.get("pre_tokenizer.add_prefix_space");
  claims.only("pre_tokenizer.add_prefix_space", false);
  claims.only("pre_tokenizer.use_regex", true);
  claims.harmless({"pre_tokenizer.trim_offsets"});
  require_type(claims, "decoder", "ByteLevel");
  // Offsets are not asked for, and only a decoder's type decides texts.
  claims.harmless({"decoder.add_prefix_space", "decoder.trim_offsets", "decoder.use_regex"});
}

// Claims that nothing is put around a text.
void claim_after(Claims& claims) {
  const Value type = claims.get("post_processor.type", "ByteLevel");
  if (type == Value("TemplateProcessing")) {
    claims.get("post_processor.single");
    claims.only("post_processor.single", Value::Array{R"({"Sequence":{"id":"A","type_id":0}})"});
    claims.harmless({"post_processor.pair", "post_processor.special_tokens*"});
  } else {
    claims.only("post_processor.type", "ByteLevel");
    claims.harmless({"post_processor.add_prefix_space",
                     "post_processor.trim_offsets",
                     "post_processor.use_regex"});
  }
}

// Checks what decides ids beyond a vocabulary and merges.
void require_gpt2(const Json& rest, bool has_merges, const fs::path& file) {
  Claims claims = claims_of(rest, place_of(file));
  claims.only("version", "1.0");
  claim_model(claims, has_merges);
  claim_words(claims);
  claim_after(claims);
  claims.harmless({"truncation*", "padding*"});  // of batches, asked for in each call
  claims.require_known(kReader);
}

// Moves a part out of `json`.
Json take(Json& json, const char* key) {
  Json part = at(json, key);
  if (json.is_object()) json.erase(key);
  return part;
}

BpeFiles read_separate(const fs::path& vocabulary, const fs::path& merges) {
  BpeFiles files{.file = vocabulary.string()};
  const Json tokens = parse_file(vocabulary);
  if (tokens.empty()) fail_config("{} is damaged: it has no tokens", place_of(vocabulary));
  read_tokens(tokens, files);
  read_merges(merges, files);
  return files;
}

BpeFiles read_one(const fs::path& file) {
  Json rest = parse_file(file), model = take(rest, "model");
  const Json tokens = take(model, "vocab"), merges = take(model, "merges"),
             added = take(rest, "added_tokens");
  rest["model"] = std::move(model);
  require_gpt2(rest, !merges.is_null(), file);
  BpeFiles files{.file = file.string()};
  if (!tokens.is_object() || tokens.empty()) refuse(file, "model.vocab", tokens);
  read_tokens(tokens, files);
  read_merges(merges, file, files);
  read_added(added, file, files);
  return files;
}

}  // namespace

std::string read_tokenizer_file(const fs::path& file) {
  std::error_code error;
  if (fs::exists(file, error) && !fs::is_regular_file(file, error)) {
    fail_config("tokenizer.path: {} is not a regular file", written_path(file));
  }
  if (!fs::is_regular_file(file, error)) {
    fail_config(
        "tokenizer.path: {} does not exist; give a folder with tokenizer.json, or with vocab.json "
        "and merges.txt",
        written_path(file));
  }
  constexpr std::uintmax_t kLargest = 1 << 28;  // the largest vocabularies have a tenth of it
  if (const std::uintmax_t size = fs::file_size(file, error); !error && size > kLargest) {
    fail_config(
        "tokenizer.path: {} has {} bytes, more than {}", written_path(file), size, kLargest);
  }
  std::ifstream in(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in) fail_config("tokenizer.path: cannot read {}: {}", written_path(file), SystemError());
  return text;
}

std::set<std::string> null_keys(const fs::path& file) {
  std::set<std::string> keys;
  const Json json = parse_file(file);
  for (const auto& [key, value] : json.items()) {
    if (value.is_null()) keys.insert(key);
  }
  return keys;
}

BpeFiles read_bpe(const fs::path& folder) {
  const fs::path whole = folder / "tokenizer.json", vocabulary = folder / "vocab.json",
                 merges = folder / "merges.txt";
  if (!fs::exists(whole)) return read_separate(vocabulary, merges);
  BpeFiles files = read_one(whole);
  if (!fs::exists(vocabulary) || !fs::exists(merges)) return files;
  // transformers reads the one form, other programs the other.
  BpeFiles others = read_separate(vocabulary, merges);
  std::ranges::sort(others.tokens);
  auto tokens = files.tokens;
  std::ranges::sort(tokens);
  const auto same_merge = [](const BpeFiles::Merge& a, const BpeFiles::Merge& b) {
    return a.left == b.left && a.right == b.right;
  };
  if (tokens != others.tokens || !std::ranges::equal(files.merges, others.merges, same_merge)) {
    fail_config(
        "tokenizer.path: {} has a tokenizer.json of another vocabulary than vocab.json and "
        "merges.txt: remove what is not the model's",
        folder.string());
  }
  return files;
}

}  // namespace tessera

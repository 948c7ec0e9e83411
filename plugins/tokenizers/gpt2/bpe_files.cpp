#include "bpe_files.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tessera/error.hpp"
#include "tessera/parse_json.hpp"
#include "tessera/written.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

Json parse_file(const fs::path& file) {
  const std::string text = read_tokenizer_file(file);
  try {
    return parse_json<Json>(text);
  } catch (const Error& error) {
    fail_config("tokenizer.path: {} is damaged: {}", file.string(), error.what());
  }
}

Json parse_object(const fs::path& file, std::string_view what) {
  Json json = parse_file(file);
  if (json.is_object() && !json.empty()) return json;
  fail_config("tokenizer.path: {} is damaged: it is no JSON object {}", file.string(), what);
}

// null where a key is absent.
const Json& at(const Json& object, const char* key) {
  static const Json kNull;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found == object.end() ? kNull : *found;
}

// A part of tokenizer.json that is not GPT-2's.
[[noreturn]] void refuse(const fs::path& file, std::string_view key, const Json& value) {
  fail_config("tokenizer.path: {} has {} = {}, which the tokenizer gpt2 does not do",
              file.string(),
              key,
              written_plain(value.dump()));
}

void require_absent(const fs::path& file, std::string_view key, const Json& value) {
  const bool nothing = value.is_null() || value == Json("") || value == Json(false) ||
                       (value.is_number() && value == Json(0)) ||
                       (value.is_array() && value.empty());
  if (!nothing) refuse(file, key, value);
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
    if (!at(token, "content").is_string() || at(token, "content") == Json("") ||
        !at(token, "id").is_number_unsigned()) {
      refuse(file, "added_tokens", token);
    }
    for (const char* key : {"single_word", "lstrip", "rstrip"}) {
      if (!at(token, key).is_null() && at(token, key) != Json(false)) {
        refuse(file, "added_tokens", token);
      }
    }
    files.added.push_back({token["content"], token["id"].get<i64>()});
  }
}

// What decides ids, and is more than a vocabulary and merges.
void require_gpt2(const Json& json, const fs::path& file) {
  const Json &model = at(json, "model"), &words = at(json, "pre_tokenizer"),
             &after = at(json, "post_processor"), &decoder = at(json, "decoder");
  // Early files, as that of GPT-2 itself, leave the type out; no other one has merges.
  const Json& type = at(model, "type");
  if (type != Json("BPE") && !(type.is_null() && model.contains("merges"))) {
    refuse(file, "model.type", type);
  }
  require_absent(file, "normalizer", at(json, "normalizer"));
  for (const char* key :
       {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "ignore_merges"}) {
    require_absent(file, fmt::format("model.{}", key), at(model, key));
  }
  const Json& pattern = at(words, "use_regex");
  if (at(words, "type") != Json("ByteLevel") || at(words, "add_prefix_space") != Json(false) ||
      (!pattern.is_null() && pattern != Json(true))) {
    refuse(file, "pre_tokenizer", words);
  }
  if (at(decoder, "type") != Json("ByteLevel")) refuse(file, "decoder", decoder);
  if (!after.is_null() && at(after, "type") != Json("ByteLevel")) {
    const auto alone = parse_json<Json>(R"([{"Sequence":{"id":"A","type_id":0}}])");
    if (at(after, "type") != Json("TemplateProcessing") || at(after, "single") != alone) {
      refuse(file, "post_processor", after);
    }
  }
}

BpeFiles read_separate(const fs::path& vocabulary, const fs::path& merges) {
  BpeFiles files{.file = vocabulary.string(), .tokens = {}, .merges = {}, .added = {}};
  read_tokens(parse_object(vocabulary, "of tokens and ids"), files);
  read_merges(merges, files);
  return files;
}

BpeFiles read_one(const fs::path& file) {
  const Json json = parse_object(file, "of a tokenizer");
  require_gpt2(json, file);
  BpeFiles files{.file = file.string(), .tokens = {}, .merges = {}, .added = {}};
  const Json& tokens = at(json["model"], "vocab");
  if (!tokens.is_object() || tokens.empty()) refuse(file, "model.vocab", tokens);
  read_tokens(tokens, files);
  read_merges(at(json["model"], "merges"), file, files);
  read_added(at(json, "added_tokens"), file, files);
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
  if (!in)
    fail_config("tokenizer.path: cannot read {}: {}", written_path(file), std::strerror(errno));
  return text;
}

std::set<std::string> null_keys(const fs::path& file) {
  std::set<std::string> keys;
  const Json json = parse_file(file);
  if (!json.is_object()) return keys;
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
  // transformers reads the one, other programs the others.
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

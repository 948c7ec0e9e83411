#include "kernel/train/run/token_ids.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "kernel/checkpoint/disk.hpp"
#include "kernel/checkpoint/stored_reader.hpp"
#include "kernel/train/run/foreign_files.hpp"
#include "tessera/error.hpp"
#include "tessera/io/json.hpp"
#include "tessera/io/written.hpp"
#include "tessera/log.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;
constexpr const char* kFile = "token_ids.json";
constexpr const char* kKeys[] = {"bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id"};

// One number, or several.
std::vector<i64> numbers_in(const Claims& claims, const char* key, const Value& value) {
  std::vector<i64> numbers;
  const auto* several = std::get_if<Value::Array>(&value.data);
  for (const Value& one : several != nullptr ? *several : Value::Array{value}) {
    const auto* number = std::get_if<i64>(&one.data);
    if (number == nullptr) {
      fail_config("{}: \"{}\" is {}, which is no number of a token",
                  claims.file(),
                  key,
                  written_plain(value.text()));
    }
    numbers.push_back(*number);
  }
  return numbers;
}

// The tokens of a model among what a file says; the others go to `beyond`, as text.
std::optional<Value> tokens_in(const Claims& claims,
                               const char* key,
                               const Value& value,
                               i64 vocabulary,
                               std::vector<std::string>& beyond) {
  Value::Array kept;
  for (const i64 number : numbers_in(claims, key, value)) {
    if (number >= 0 && (vocabulary == 0 || number < vocabulary)) {
      kept.emplace_back(number);
    } else {
      beyond.push_back(fmt::format("{} = {}", key, number));
    }
  }
  if (kept.empty()) return std::nullopt;
  return std::holds_alternative<Value::Array>(value.data) ? Value(kept) : kept[0];
}

// What a file says in `kKeys`, without numbers that are no token of the model.
Settings ids_in(Claims& claims, i64 vocabulary) {
  Settings ids;
  std::vector<std::string> beyond;
  for (const char* key : kKeys) {
    const Value* value = claims.find(key);
    if (value == nullptr) continue;
    if (const auto tokens = tokens_in(claims, key, *value, vocabulary, beyond)) ids[key] = *tokens;
  }
  if (!beyond.empty()) {
    log_warning("{} has {}, and the model has no such token{}: not kept",
                claims.file(),
                name_list(beyond),
                vocabulary == 0 ? "" : fmt::format(" among its {}", vocabulary));
  }
  return ids;
}

Settings ids_in(const fs::path& file, i64 vocabulary) {
  if (!fs::exists(file)) return {};
  Claims claims(file.string(), parse_settings(read_text_file(file), file.string()));
  return ids_in(claims, vocabulary);
}

Json json_of(const Value& value) {
  if (const auto* number = std::get_if<i64>(&value.data)) return *number;
  return Json::array(std::get<Value::Array>(value.data),
                     [](const Value& one) { return Json(std::get<i64>(one.data)); });
}

}  // namespace

i64 vocabulary_in(const Settings& ours) {
  const auto found = ours.find("model.vocab");
  const i64* number = found == ours.end() ? nullptr : std::get_if<i64>(&found->second.data);
  return number == nullptr ? 0 : *number;
}

Settings token_ids_of(const ForeignModel& model,
                      const fs::path& folder,
                      i64 vocabulary,
                      bool with_tokenizer) {
  Settings ids = ids_in(folder / kGenerationConfig, vocabulary);
  Claims config(model.settings_file(), model.settings());
  for (const auto& [key, value] : ids_in(config, vocabulary)) ids.try_emplace(key, value);
  if (with_tokenizer || ids.empty()) return ids;
  std::vector<std::string> lost;
  for (const auto& [key, value] : ids) lost.push_back(fmt::format("{} = {}", key, value.text()));
  log_warning("{}: {} is kept with a tokenizer only, and none is converted",
              folder.string(),
              name_list(lost));
  return {};
}

void write_token_ids(const fs::path& folder, const Settings& ids) {
  if (ids.empty()) return;
  Json json;
  for (const auto& [key, value] : ids) json.add(key, json_of(value));
  write_synced(folder / kFile, json.text() + "\n");
}

Settings read_token_ids(const fs::path& folder, i64 vocabulary) {
  return ids_in(folder / kFile, vocabulary);
}

std::vector<i32> end_tokens(const RunSetup& setup) {
  const Entry* path = setup.tree->find("tokenizer.path");
  const auto* folder =
      path != nullptr && path->value ? std::get_if<std::string>(&path->value->data) : nullptr;
  const Settings told =
      folder == nullptr ? Settings()
                        : read_token_ids(tokenizer_folder(*folder), setup.tokenizer->vocabulary());
  const auto found = told.find("eos_token_id");
  if (found == told.end()) return setup.tokenizer->special_ids().eos;
  const auto* several = std::get_if<Value::Array>(&found->second.data);
  std::vector<i32> ends;
  for (const Value& one : several != nullptr ? *several : Value::Array{found->second}) {
    ends.push_back(static_cast<i32>(std::get<i64>(one.data)));
  }
  return ends;
}

}  // namespace tessera

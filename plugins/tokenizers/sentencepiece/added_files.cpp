#include "added_files.hpp"

#include <charconv>
#include <nlohmann/json.hpp>

#include "tessera/error.hpp"
#include "tessera/io/data_file.hpp"
#include "tessera/io/parse_json.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

Json object_in(const fs::path& file) {
  std::error_code error;
  if (!fs::exists(file, error)) return Json::object();
  const DataFile data(file.string(), "tokenizer.path");
  return parse_json_object<Json, ConfigError>(data.text(), "tokenizer.path: " + file.string());
}

void require_piece(const fs::path& place, const Json& text, const Json& id, const ModelFile& file) {
  const bool known = text.is_string() && id.is_number_unsigned() &&
                     id.get<u64>() < file.pieces.size() &&
                     file.pieces[id.get<u64>()].text == text.get<std::string>();
  if (known) return;
  fail_config(
      "tokenizer.path: {} makes {} the token {}, which it is not in {}: this tokenizer has no "
      "tokens but those of the model",
      place.string(),
      written_plain(text.dump()),
      written_plain(id.dump()),
      fs::path(file.name).filename().string());
}

}  // namespace

void require_nothing_added(const fs::path& folder, const ModelFile& file) {
  const fs::path more = folder / "added_tokens.json", config = folder / "tokenizer_config.json";
  const Json added = object_in(more);
  for (const auto& [text, id] : added.items()) require_piece(more, text, id, file);
  const Json keys = object_in(config);
  const auto decoder = keys.find("added_tokens_decoder");
  if (decoder == keys.end() || !decoder->is_object()) return;
  for (const auto& [number, token] : decoder->items()) {
    u64 id = 0;
    const char* end = number.data() + number.size();
    const auto [at, error] = std::from_chars(number.data(), end, id);
    const Json whole = error == std::errc() && at == end ? Json(id) : Json(number);
    require_piece(config, token.is_object() ? token.value("content", Json()) : token, whole, file);
  }
}

}  // namespace tessera

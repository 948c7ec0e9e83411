#include "named_text.hpp"

#include <nlohmann/json.hpp>

#include "bpe_files.hpp"
#include "tessera/error.hpp"
#include "tessera/io/parse_json.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

NamedText named_text(const std::filesystem::path& folder, const std::string& key) {
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const std::filesystem::path file = folder / name;
    std::error_code error;
    if (!std::filesystem::exists(file, error)) continue;
    const std::string place = "tokenizer.path: " + file.string();
    const auto json =
        parse_json_object<nlohmann::json, ConfigError>(read_tokenizer_file(file), place);
    const auto found = json.find(key);
    if (found == json.end()) continue;
    if (found->is_null()) return {true, std::nullopt};
    // A token is written as its text, or as an object with it.
    const nlohmann::json& said =
        found->is_object() && found->contains("content") ? found->at("content") : *found;
    if (said.is_string()) return {true, said.get<std::string>()};
    fail_config(
        "{}: {} is {}, which is not a token", place, quote(key), written_plain(found->dump()));
  }
  return {};
}

}  // namespace tessera

#include "family_config.hpp"

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tessera/error.hpp"
#include "tessera/io/parse_json.hpp"

namespace tessera {

const Value* FamilyConfig::usual(std::string_view key) const {
  const auto found = family_.defaults.find(key);
  return found == family_.defaults.end() ? nullptr : &found->second;
}

Value FamilyConfig::get(std::string_view key) {
  const Value* otherwise = usual(key);
  return otherwise == nullptr ? theirs_.get(key) : theirs_.get(key, *otherwise);
}

i64 FamilyConfig::integer(std::string_view key) {
  const Value* otherwise = usual(key);
  return otherwise == nullptr ? theirs_.integer(key) : integer(key, std::get<i64>(otherwise->data));
}

i64 FamilyConfig::integer(std::string_view key, i64 otherwise) {
  if (theirs_.find(key) != nullptr) return theirs_.integer(key);
  const Value* value = usual(key);
  return value == nullptr ? otherwise : std::get<i64>(value->data);
}

bool FamilyConfig::flag(std::string_view key) {
  const Value* otherwise = usual(key);
  return otherwise != nullptr && theirs_.flag(key, *otherwise == Value(true));
}

bool FamilyConfig::is_null(const char* key) const {
  std::ifstream file(theirs_.file(), std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  if (text.empty()) return false;
  const auto json = parse_json_object<nlohmann::json>(text, theirs_.file());
  const auto found = json.find(key);
  return found != json.end() && found->is_null();
}

FamilySizes::FamilySizes(FamilyConfig& config)
    : layers(config.integer("num_hidden_layers")),
      hidden(config.integer("hidden_size")),
      ffn(config.integer("intermediate_size")),
      heads(config.integer("num_attention_heads")),
      groups(config.is_null("num_key_value_heads") ? heads
                                                   : config.integer("num_key_value_heads", heads)) {
  if (heads < 1 || (config.family().whole_heads && hidden % heads != 0)) {
    fail_config("{} has hidden_size = {} and num_attention_heads = {}, which does not divide it",
                config.claims().file(),
                hidden,
                heads);
  }
  head = config.integer("head_dim", hidden / heads);
}

FamilyBiases::FamilyBiases(FamilyConfig& config)
    : qkv(config.flag("attention_bias")), proj(qkv), mlp(config.flag("mlp_bias")) {
  if (config.family().qkv_bias) qkv = true;
}

}  // namespace tessera

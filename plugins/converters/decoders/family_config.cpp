#include "family_config.hpp"

#include "tessera/error.hpp"

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
  return otherwise != nullptr && theirs_.flag(key, *otherwise == Value(true) && !is_null(key));
}

bool FamilyConfig::is_null(std::string_view key) { return theirs_.find(null_key(key)) != nullptr; }

void require_none(const ModelKeys& ours, const std::string& slot) {
  const Value* type = ours.find(slot + ".type");
  if (type != nullptr && *type != Value("")) ours.only(slot + ".type", "none");
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

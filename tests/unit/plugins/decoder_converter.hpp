#pragma once
// A converter of the family of Llama, as tests of what a config.json means use it.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plugins_support.hpp"
#include "tessera/converter.hpp"

namespace tessera {

// What an action throws, without the line that names the component.
template <class F>
std::string first_line(F&& action) {
  const std::string text = text_of<ConfigError>(action);
  return text.substr(0, text.find('\n'));
}

// The model that a config.json of no keys means, but for what families have of their own.
inline Settings usual_decoder(i64 positions, i64 vocab, i64 kv_heads, i64 ffn) {
  return {{"model.type", "gpt"},
          {"model.layers", 32},
          {"model.hidden", 4096},
          {"model.heads", 32},
          {"model.positions", positions},
          {"model.vocab", vocab},
          {"model.tied_embeddings", false},
          {"model.dropout", 0.0},
          {"model.init_std", 0.02},
          {"model.embedding.learned_positions", false},
          {"model.block.norm.type", "rmsnorm"},
          {"model.block.norm.eps", 1e-6},
          {"model.head.norm.type", "rmsnorm"},
          {"model.head.norm.eps", 1e-6},
          {"model.block.attention.kv_heads", kv_heads},
          {"model.block.attention.head_size", 128},
          {"model.block.attention.qkv.bias", false},
          {"model.block.attention.proj.bias", false},
          {"model.block.attention.dropout", 0.0},
          {"model.block.attention.rotary.type", "default"},
          {"model.block.attention.rotary.base", 10000.0},
          {"model.block.attention.rotary.fraction", 1.0},
          {"model.block.attention.rotary.interleaved", false},
          {"model.block.mlp.type", "gated_mlp"},
          {"model.block.mlp.ffn", ffn},
          {"model.block.mlp.up.bias", false},
          {"model.block.mlp.down.bias", false},
          {"model.block.mlp.activation", "swiglu"}};
}

// The keys of experts in the place of those of a dense MLP.
inline Settings with_experts(Settings model, i64 experts, i64 top_k, i64 ffn, const char* score) {
  std::erase_if(model,
                [](const auto& entry) { return entry.first.starts_with("model.block.mlp"); });
  const Settings moe = {{"type", "moe"},
                        {"activation", "swiglu"},
                        {"experts", experts},
                        {"top_k", top_k},
                        {"ffn", ffn},
                        {"shared_ffn", 0},
                        {"capacity_factor", "none"},
                        {"router.type", "top_k"},
                        {"router.score", score},
                        {"router.groups", 1},
                        {"router.group_top_k", 1},
                        {"router.scale", 1.0}};
  for (const auto& [key, value] : moe) model["model.block.mlp." + key] = value;
  return model;
}

// A config.json of one layer, and the lines of its tensors in families without additions.
inline constexpr const char* kOneLayer = R"({"num_hidden_layers": 1, "hidden_size": 12,
  "num_attention_heads": 3, "num_key_value_heads": 1, "intermediate_size": 20})";
inline constexpr const char* kOneLayerTensors = R"(embedding.weight 0 model.embed_tokens.weight
head.norm.weight 0 model.norm.weight
head.weight 0 lm_head.weight
layers.0.attention_norm.weight 0 model.layers.0.input_layernorm.weight
layers.0.mlp_norm.weight 0 model.layers.0.post_attention_layernorm.weight
layers.0.attention.qkv.weight 0 model.layers.0.self_attn.q_proj.weight
layers.0.attention.qkv.weight 12 model.layers.0.self_attn.k_proj.weight
layers.0.attention.qkv.weight 16 model.layers.0.self_attn.v_proj.weight
layers.0.attention.proj.weight 0 model.layers.0.self_attn.o_proj.weight
layers.0.mlp.up.weight 0 model.layers.0.mlp.gate_proj.weight
layers.0.mlp.up.weight 20 model.layers.0.mlp.up_proj.weight
layers.0.mlp.down.weight 0 model.layers.0.mlp.down_proj.weight
)";

class DecoderConverter : public ::testing::Test {
 protected:
  // `least`: keys without which config.json means a model that is refused.
  explicit DecoderConverter(std::string_view name, std::string least = "{}")
      : least_(std::move(least)), converter_(make_plugin<Converter>(name, "", none_)) {}

  // Settings here of a config.json; "null.sliding_window" says of a key that it is null.
  Settings ours(const std::string& json) const {
    const std::string file = "config.json";
    Claims claims(file, parse_settings(json, file));
    claims.harmless({null_key("*")});
    Settings settings = converter_->to_ours(claims);
    claims.require_known("it");
    return settings;
  }
  // Those of the model.
  Settings model(const std::string& json) const {
    Settings settings = ours(json);
    std::erase_if(settings, [](const auto& entry) { return !entry.first.starts_with("model."); });
    return settings;
  }
  std::string refused(const std::string& json) const {
    return first_line([&] { ours(json); });
  }
  // As the resolved configuration has them, which has more keys.
  Settings resolved(const std::string& json) const {
    Settings settings = ours(json);
    const Settings more = {{"model.embedding.type", "embedding"},
                           {"model.block.type", "transformer_block"},
                           {"model.block.attention.type", "self_attention"},
                           {"model.block.attention.causal", true},
                           {"model.block.attention.window", "none"},
                           {"model.predict_ahead.type", ""},
                           {"model.block.attention.heads", settings.at("model.heads")},
                           {"model.head.type", "lm_head"},
                           {"model.head.tied", settings.at("model.tied_embeddings")}};
    settings.insert(more.begin(), more.end());
    // A kind of blocks has all keys of [model.block], but for those of another MLP.
    const Settings known = settings;
    for (const std::string kind : {"dense", "moe", "full", "window"}) {
      const std::string table = "model.blocks." + kind;
      const auto first = known.lower_bound(table + ".");
      if (first == known.end() || !first->first.starts_with(table + ".")) continue;
      const auto type = known.find(table + ".mlp.type");
      const bool other = type != known.end() && type->second != known.at("model.block.mlp.type");
      for (const auto& [key, value] : known) {
        if (!key.starts_with("model.block.")) continue;
        const std::string rest = key.substr(std::string_view("model.block").size());
        if (!other || !rest.starts_with(".mlp.")) settings.try_emplace(table + rest, value);
      }
    }
    return settings;
  }
  std::string refused_back(const std::string& key, const Value& value) const {
    Settings settings = resolved(least_);
    settings[key] = value;
    return first_line([&] { converter_->to_theirs(settings); });
  }
  // The config.json that is written has the same keys and values.
  void expect_back(const std::string& json) const {
    EXPECT_EQ(converter_->to_theirs(resolved(json)), parse_settings(json, "")) << json;
  }
  // A line for each tensor of experts: "experts.up, entry 1, column 20: …w3.weight".
  std::string experts(const Settings& theirs) const {
    std::string all;
    for (const ConvertedTensor& tensor : converter_->tensors(theirs)) {
      if (!tensor.at.entry) continue;
      all += fmt::format(
          "{} {} {} {}\n", tensor.ours, *tensor.at.entry, tensor.at.column, tensor.theirs);
      EXPECT_TRUE(tensor.transposed && tensor.at.row == 0);
    }
    return all;
  }
  // A line for each other tensor.
  std::string tensors(const Settings& theirs) const {
    std::string all;
    for (const ConvertedTensor& tensor : converter_->tensors(theirs)) {
      if (tensor.at.entry) continue;
      all += fmt::format("{} {} {}\n", tensor.ours, tensor.at.row, tensor.theirs);
      EXPECT_FALSE(tensor.transposed || tensor.at.column != 0);
    }
    return all;
  }

  ConverterArguments none_;
  std::string least_;
  std::shared_ptr<Converter> converter_;
};

}  // namespace tessera

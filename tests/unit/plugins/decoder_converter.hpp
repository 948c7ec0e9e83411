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

class DecoderConverter : public ::testing::Test {
 protected:
  // `least`: keys without which config.json means a model that is refused.
  explicit DecoderConverter(std::string_view name, std::string least = "{}")
      : least_(std::move(least)), converter_(make_plugin<Converter>(name, "", none_)) {}

  // Settings here of a config.json.
  Settings ours(const std::string& json, const std::string& file = "config.json") const {
    Claims claims(file, parse_settings(json, file));
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
                           {"model.block.attention.heads", settings.at("model.heads")},
                           {"model.head.type", "lm_head"},
                           {"model.head.tied", settings.at("model.tied_embeddings")}};
    settings.insert(more.begin(), more.end());
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
  // A line for each tensor.
  std::string tensors(const Settings& theirs) const {
    std::string all;
    for (const ConvertedTensor& tensor : converter_->tensors(theirs)) {
      all += fmt::format("{} {} {}\n", tensor.ours, tensor.at.row, tensor.theirs);
      EXPECT_FALSE(tensor.transposed || tensor.at.column != 0 || tensor.at.entry);
    }
    return all;
  }

  ConverterArguments none_;
  std::string least_;
  std::shared_ptr<Converter> converter_;
};

}  // namespace tessera

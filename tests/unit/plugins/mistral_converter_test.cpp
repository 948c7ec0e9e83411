// What a config.json of Mistral means here where it is no Llama's, and what is refused.
#include "decoder_converter.hpp"

namespace tessera {
namespace mistral_converter_test {

class MistralConverter : public DecoderConverter {
 protected:
  MistralConverter() : DecoderConverter("mistral", R"({"sliding_window": 131072})") {}
};

// Without other sizes a Mistral of transformers 5 has a window that is smaller than its positions.
TEST_F(MistralConverter, WhatIsAbsentIsTransformers) {
  Settings expected = usual_decoder(131072, 32000, 8, 14336);
  EXPECT_EQ(model(R"({"sliding_window": 131072})"), expected);
  EXPECT_EQ(model(R"({"null.sliding_window": true})"), expected);
  expected["model.block.attention.window"] = 4096;
  EXPECT_EQ(model("{}"), expected);
  EXPECT_EQ(converter_->model_type(), "mistral");
}

// All layers have it, whatever their types are called: as in transformers.
TEST_F(MistralConverter, AWindowIsEveryLayers) {
  const auto window = [&](const std::string& json) {
    const Settings found = model(json);
    const auto at = found.find("model.block.attention.window");
    return at == found.end() ? Value("none") : at->second;
  };
  EXPECT_EQ(window(R"({"sliding_window": 3, "max_position_embeddings": 24})"), Value(3));
  EXPECT_EQ(window(R"({"sliding_window": 23, "max_position_embeddings": 24})"), Value(23));
  EXPECT_EQ(window(R"({"sliding_window": 24, "max_position_embeddings": 24})"), Value("none"));
  EXPECT_EQ(window(R"({"max_position_embeddings": 4096})"), Value("none"));
  EXPECT_EQ(window(R"({"max_position_embeddings": 4097})"), Value(4096));
  EXPECT_EQ(window(R"({"sliding_window": 3, "num_hidden_layers": 1,
                       "layer_types": ["full_attention"]})"),
            Value(3));
}

TEST_F(MistralConverter, SizesOfItsOwn) {
  const Settings found = model(R"({"architectures": ["MistralForCausalLM"], "sliding_window": 24,
    "max_position_embeddings": 24, "hidden_size": 100, "num_attention_heads": 3,
    "num_key_value_heads": 1, "head_dim": 8, "rope_theta": 1000000.0,
    "layer_types": ["full_attention", "full_attention"], "num_hidden_layers": 2})");
  EXPECT_EQ(found.at("model.block.attention.head_size"), Value(8));
  EXPECT_EQ(found.at("model.block.attention.kv_heads"), Value(1));
  EXPECT_EQ(found.at("model.block.attention.rotary.base"), Value(1e6));
  // As transformers divides.
  EXPECT_EQ(model(R"({"sliding_window": 131072, "hidden_size": 100, "num_attention_heads": 3})")
                .at("model.block.attention.head_size"),
            Value(33));
}

TEST_F(MistralConverter, WhatItCannotDoIsRefused) {
  for (const auto& [json, error] : std::vector<std::pair<const char*, const char*>>{
           {R"({"sliding_window": 0, "max_position_embeddings": 24})",
            "config.json has sliding_window = 0; it is null, or at least 1"},
           {R"({"sliding_window": "all"})",
            R"(config.json: "sliding_window" is "all", which is not an integer)"},
           {R"({"sliding_window": 131072, "num_hidden_layers": 2,
                "layer_types": ["full_attention", "sliding_attention"]})",
            "config.json has layer_types with \"sliding_attention\"; only \"full_attention\" is "
            "supported"},
           {R"({"sliding_window": 131072, "attention_bias": false})",
            "config.json has attention_bias = false, which it does not know: remove what changes "
            "nothing in the model"},
           {R"({"architectures": ["LlamaForCausalLM"]})",
            "config.json has architectures = [\"LlamaForCausalLM\"]; the converter reads "
            "MistralForCausalLM and MistralModel"}}) {
    EXPECT_EQ(refused(json), error) << json;
  }
}

// Every key that is read goes back with its value.
TEST_F(MistralConverter, BackIsTheSame) {
  const std::string keys = R"({"vocab_size": 300, "hidden_size": 96, "intermediate_size": 256,
    "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2,
    "max_position_embeddings": 24, "initializer_range": 0.03, "rms_norm_eps": 1e-05,
    "tie_word_embeddings": true, "attention_dropout": 0.1, "head_dim": 8, "hidden_act": "silu",
    "architectures": ["MistralForCausalLM"], "rope_theta": 5000.0, )";
  expect_back(keys + R"("null.sliding_window": true})");
  expect_back(keys + R"("sliding_window": 3})");
}

TEST_F(MistralConverter, WhatMistralCannotSayIsRefused) {
  for (const auto& [key, value, error] : std::vector<std::tuple<const char*, Value, const char*>>{
           {"model.block.attention.qkv.bias",
            true,
            "model.block.attention.qkv.bias = true; Mistral has false"},
           {"model.block.attention.proj.bias",
            true,
            "model.block.attention.proj.bias = true; Mistral has false"},
           {"model.block.mlp.up.bias", true, "model.block.mlp.up.bias = true; Mistral has false"},
           {"model.block.attention.rotary.type",
            "none",
            "model.block.attention.rotary.type = \"none\"; Mistral has \"default\", \"linear\", "
            "\"llama3\" and \"yarn\""},
           {"model.block.attention.q_norm.type",
            "rmsnorm",
            "model.block.attention.q_norm.type = \"rmsnorm\"; Mistral has \"none\""},
           {"model.predict_ahead.type",
            "multi_token_prediction",
            "model.predict_ahead.type = \"multi_token_prediction\"; Mistral has \"none\""}}) {
    EXPECT_EQ(refused_back(key, value), error);
  }
}

// What a Qwen could say.
TEST_F(MistralConverter, AWindowOfSomeLayersIsRefused) {
  Settings settings = resolved(R"({"sliding_window": 3, "num_hidden_layers": 2})");
  settings["model.pattern"] = "full window";
  for (const auto& [key, value] : Settings(settings)) {
    if (!key.starts_with("model.block.")) continue;
    const std::string rest = key.substr(std::string_view("model.block.").size());
    settings["model.blocks.full." + rest] = settings["model.blocks.window." + rest] = value;
  }
  EXPECT_EQ(converter_->to_theirs(settings).at("sliding_window"), Value(3));
  settings["model.blocks.full.attention.window"] = "none";
  EXPECT_EQ(first_line([&] { converter_->to_theirs(settings); }),
            "model.blocks.full.attention.window = \"none\" and "
            "model.blocks.window.attention.window = 3: Mistral has one value for both");
}

TEST_F(MistralConverter, ItsTensorsAreTilesOfOurs) {
  const Settings theirs = parse_settings(kOneLayer, "");
  EXPECT_EQ(tensors(theirs), kOneLayerTensors);
  EXPECT_TRUE(converter_->harmless_file("params.json"));
  EXPECT_FALSE(converter_->harmless_file("other.json"));
}

}  // namespace mistral_converter_test
}  // namespace tessera

// What a config.json of Qwen2 or Qwen3 means here where it is no Llama's, and what is refused.
#include "decoder_converter.hpp"

namespace tessera {
namespace qwen_converter_test {

class Qwen2Converter : public DecoderConverter {
 protected:
  Qwen2Converter() : DecoderConverter("qwen2") {}
};

class Qwen3Converter : public DecoderConverter {
 protected:
  Qwen3Converter() : DecoderConverter("qwen3") {}
};

constexpr const char* kSizes = R"("vocab_size": 300, "hidden_size": 96, "intermediate_size": 256,
  "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 8,
  "max_position_embeddings": 24, "initializer_range": 0.03, "rms_norm_eps": 1e-05,
  "tie_word_embeddings": true, "attention_dropout": 0.1, "hidden_act": "silu",
  "rope_theta": 5000.0, "use_sliding_window": false)";

// Fields of a model with one layer, for its tensors.
constexpr const char* kOneLayerWithHeadDim = R"({"num_hidden_layers": 1, "hidden_size": 12,
  "num_attention_heads": 3, "num_key_value_heads": 1, "intermediate_size": 20, "head_dim": 4})";

TEST_F(Qwen2Converter, WhatIsAbsentIsTransformers) {
  Settings expected = usual_decoder(32768, 151936, 32, 22016);
  expected["model.block.attention.qkv.bias"] = true;
  EXPECT_EQ(model("{}"), expected);
  EXPECT_EQ(model(R"({"hidden_size": 96, "num_attention_heads": 6})")
                .at("model.block.attention.head_size"),
            Value(16));
}

TEST_F(Qwen3Converter, WhatIsAbsentIsTransformers) {
  Settings expected = usual_decoder(32768, 151936, 32, 22016);
  for (const std::string norm : {"q_norm", "k_norm"}) {
    expected["model.block.attention." + norm + ".type"] = "rmsnorm";
    expected["model.block.attention." + norm + ".eps"] = 1e-6;
  }
  EXPECT_EQ(model("{}"), expected);
  const Settings found =
      model(R"({"hidden_size": 96, "num_attention_heads": 6, "rms_norm_eps": 1e-5,
                "attention_bias": true})");
  EXPECT_EQ(found.at("model.block.attention.head_size"), Value(128));
  EXPECT_EQ(found.at("model.block.attention.k_norm.eps"), Value(1e-5));
  EXPECT_EQ(found.at("model.block.attention.qkv.bias"), Value(true));
  EXPECT_EQ(found.at("model.block.attention.proj.bias"), Value(true));
}

// A window matters where a layer has one, and is smaller than the model's positions.
TEST_F(Qwen2Converter, AWindowThatNoLayerHasIsHarmless) {
  for (const char* json :
       {R"({"sliding_window": 8, "max_window_layers": 2, "use_sliding_window": false})",
        R"({"sliding_window": 8, "use_sliding_window": true, "num_hidden_layers": 28})",
        R"({"sliding_window": 8, "use_sliding_window": true, "num_hidden_layers": 4,
            "max_window_layers": 4})",
        R"({"sliding_window": 8, "use_sliding_window": true, "num_hidden_layers": 2,
            "layer_types": ["full_attention", "full_attention"]})",
        R"({"sliding_window": 32768, "use_sliding_window": true})"}) {
    EXPECT_EQ(model(json).at("model.hidden"), Value(4096)) << json;
    EXPECT_FALSE(model(json).contains("model.block.attention.window")) << json;
    EXPECT_FALSE(model(json).contains("model.pattern")) << json;
  }
}

TEST_F(Qwen3Converter, AWindowOfSomeLayersMakesTwoKinds) {
  Settings found = model(R"({"sliding_window": 8, "use_sliding_window": true})");
  EXPECT_EQ(found.at("model.pattern"), Value("full*28 window*4"));
  EXPECT_EQ(found.at("model.blocks.window.attention.window"), Value(8));
  EXPECT_EQ(found.at("model.blocks.full.attention.window"), Value("none"));
  // Types go before the number of layers without.
  found = model(R"({"sliding_window": 8, "use_sliding_window": true, "num_hidden_layers": 3,
    "max_window_layers": 0, "layer_types": ["sliding_attention", "full_attention",
    "sliding_attention"]})");
  EXPECT_EQ(found.at("model.pattern"), Value("window full window"));
  found = model(R"({"sliding_window": 8, "use_sliding_window": true, "max_window_layers": 0})");
  EXPECT_EQ(found.at("model.block.attention.window"), Value(8));
  EXPECT_FALSE(found.contains("model.pattern"));
}

TEST_F(Qwen2Converter, WhatItCannotDoIsRefused) {
  for (const auto& [json, error] : std::vector<std::pair<const char*, const char*>>{
           {R"({"use_sliding_window": true, "sliding_window": 0})",
            "config.json has sliding_window = 0; it is null, or at least 1"},
           {R"({"num_hidden_layers": 2, "layer_types": ["full_attention", "sliding_attention"]})",
            "config.json has layer_types with \"sliding_attention\", which needs "
            "use_sliding_window = true and a sliding_window"},
           {R"({"num_hidden_layers": 1, "layer_types": ["chunked_attention"]})",
            "config.json has layer_types with \"chunked_attention\"; only \"full_attention\" and "
            "\"sliding_attention\" are supported"},
           {R"({"num_hidden_layers": 2, "layer_types": ["full_attention"]})",
            "config.json has num_hidden_layers = 2 and layer_types of 1"},
           {R"({"layer_types": "full_attention"})",
            R"(config.json: "layer_types" is "full_attention", which is no list)"},
           {R"({"use_sliding_window": 1})",
            R"(config.json: "use_sliding_window" is 1, neither true nor false)"},
           {R"({"use_mrope": true})", "config.json has use_mrope = true; only false is supported"},
           {R"({"attention_bias": true})",
            "config.json has attention_bias = true, which it does not know: remove what changes "
            "nothing in the model"}}) {
    EXPECT_EQ(refused(json), error) << json;
  }
}

TEST_F(Qwen3Converter, WhatItCannotDoIsRefused) {
  for (const auto& [json, error] : std::vector<std::pair<const char*, const char*>>{
           {R"({"use_sliding_window": true, "null.sliding_window": true, "num_hidden_layers": 1,
                "layer_types": ["sliding_attention"]})",
            "config.json has layer_types with \"sliding_attention\", which needs "
            "use_sliding_window = true and a sliding_window"},
           {R"({"architectures": ["Qwen2ForCausalLM"]})",
            "config.json has architectures = [\"Qwen2ForCausalLM\"]; the converter reads "
            "Qwen3ForCausalLM and Qwen3Model"}}) {
    EXPECT_EQ(refused(json), error) << json;
  }
}

// Every key that is read goes back with its value.
TEST_F(Qwen2Converter, BackIsTheSame) {
  expect_back(fmt::format("{{{}, \"architectures\": [\"Qwen2ForCausalLM\"]}}", kSizes));
}

TEST_F(Qwen3Converter, BackIsTheSame) {
  for (const bool bias : {false, true}) {
    expect_back(fmt::format(
        "{{{}, \"architectures\": [\"Qwen3ForCausalLM\"], \"attention_bias\": {}}}", kSizes, bias));
  }
}

TEST_F(Qwen2Converter, WindowsGoBack) {
  for (const char* keys :
       {R"("max_window_layers": 1, "layer_types": ["full_attention", "sliding_attention"])",
        R"("max_window_layers": 0, "layer_types": ["sliding_attention", "full_attention"])",
        R"("max_window_layers": 0, "layer_types": ["sliding_attention", "sliding_attention"])"}) {
    std::string json =
        fmt::format("{{{}, \"architectures\": [\"Qwen2ForCausalLM\"], {}, \"sliding_window\": 3}}",
                    kSizes,
                    keys);
    const std::string unused = "\"use_sliding_window\": false";
    json.replace(json.find(unused), unused.size(), "\"use_sliding_window\": true");
    expect_back(json);
  }
}

TEST_F(Qwen2Converter, WhatQwen2CannotSayIsRefused) {
  for (const auto& [key, value, error] : std::vector<std::tuple<const char*, Value, const char*>>{
           {"model.block.attention.qkv.bias",
            false,
            "model.block.attention.qkv.bias = false; Qwen2 has true"},
           {"model.block.attention.proj.bias",
            true,
            "model.block.attention.proj.bias = true; Qwen2 has false"},
           {"model.block.attention.k_norm.type",
            "rmsnorm",
            "model.block.attention.k_norm.type = \"rmsnorm\"; Qwen2 has \"none\""}}) {
    EXPECT_EQ(refused_back(key, value), error);
  }
}

TEST_F(Qwen3Converter, WhatQwen3CannotSayIsRefused) {
  for (const auto& [key, value, error] : std::vector<std::tuple<const char*, Value, const char*>>{
           {"model.block.attention.q_norm.type",
            "",
            "model.block.attention.q_norm.type = \"\"; Qwen3 has \"rmsnorm\""},
           {"model.block.attention.k_norm.type",
            "layernorm",
            "model.block.attention.k_norm.type = \"layernorm\"; Qwen3 has \"rmsnorm\""},
           {"model.block.attention.k_norm.eps",
            1e-3,
            "model.block.norm.eps = 1e-06 and model.block.attention.k_norm.eps = 0.001: Qwen3 has "
            "one value for both"},
           {"model.block.attention.proj.bias",
            true,
            "model.block.attention.qkv.bias = false and model.block.attention.proj.bias = true: "
            "Qwen3 has one value for both"}}) {
    EXPECT_EQ(refused_back(key, value), error);
  }
  Settings plain = resolved("{}");
  std::erase_if(plain,
                [](const auto& entry) { return entry.first.find("_norm.") != std::string::npos; });
  EXPECT_EQ(first_line([&] { converter_->to_theirs(plain); }),
            "the model has no \"model.block.attention.q_norm.type\": it is no Qwen3");
}

TEST_F(Qwen2Converter, ItsTensorsAreTilesOfOurs) {
  EXPECT_EQ(tensors(parse_settings(kOneLayerWithHeadDim, "")),
            R"(embedding.weight 0 model.embed_tokens.weight
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
layers.0.attention.qkv.bias 0 model.layers.0.self_attn.q_proj.bias
layers.0.attention.qkv.bias 12 model.layers.0.self_attn.k_proj.bias
layers.0.attention.qkv.bias 16 model.layers.0.self_attn.v_proj.bias
)");
}

TEST_F(Qwen3Converter, ItsTensorsAreTilesOfOurs) {
  Settings theirs = parse_settings(kOneLayerWithHeadDim, "");
  theirs["tie_word_embeddings"] = true;
  EXPECT_EQ(tensors(theirs), R"(embedding.weight 0 model.embed_tokens.weight
head.norm.weight 0 model.norm.weight
layers.0.attention_norm.weight 0 model.layers.0.input_layernorm.weight
layers.0.mlp_norm.weight 0 model.layers.0.post_attention_layernorm.weight
layers.0.attention.qkv.weight 0 model.layers.0.self_attn.q_proj.weight
layers.0.attention.qkv.weight 12 model.layers.0.self_attn.k_proj.weight
layers.0.attention.qkv.weight 16 model.layers.0.self_attn.v_proj.weight
layers.0.attention.q_norm.weight 0 model.layers.0.self_attn.q_norm.weight
layers.0.attention.k_norm.weight 0 model.layers.0.self_attn.k_norm.weight
layers.0.attention.proj.weight 0 model.layers.0.self_attn.o_proj.weight
layers.0.mlp.up.weight 0 model.layers.0.mlp.gate_proj.weight
layers.0.mlp.up.weight 20 model.layers.0.mlp.up_proj.weight
layers.0.mlp.down.weight 0 model.layers.0.mlp.down_proj.weight
)");
  EXPECT_EQ(converter_->shared(theirs).at(0).name, "lm_head.weight");
  theirs["attention_bias"] = true;
  EXPECT_THAT(tensors(theirs),
              ::testing::HasSubstr("attention.proj.bias 0 model.layers.0.self_attn.o_proj.bias"));
}

}  // namespace qwen_converter_test
}  // namespace tessera

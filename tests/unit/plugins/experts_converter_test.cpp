// What a config.json of Mixtral or Qwen3-MoE means here, and what is refused.
#include "decoder_converter.hpp"

namespace tessera {
namespace experts_converter_test {

class MixtralConverter : public DecoderConverter {
 protected:
  MixtralConverter() : DecoderConverter("mixtral") {}
};

class Qwen3MoeConverter : public DecoderConverter {
 protected:
  Qwen3MoeConverter() : DecoderConverter("qwen3_moe") {}
};

constexpr const char* kSizes = R"("vocab_size": 300, "hidden_size": 96, "intermediate_size": 256,
  "num_hidden_layers": 4, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 8,
  "max_position_embeddings": 24, "initializer_range": 0.03, "rms_norm_eps": 1e-05,
  "tie_word_embeddings": true, "attention_dropout": 0.1, "hidden_act": "silu",
  "rope_theta": 5000.0)";
constexpr const char* kExperts = R"("architectures": ["Qwen3MoeForCausalLM"], "num_experts": 4,
  "num_experts_per_tok": 3, "moe_intermediate_size": 40, "attention_bias": false)";

TEST_F(MixtralConverter, WhatIsAbsentIsTransformers) {
  Settings expected = with_experts(usual_decoder(131072, 32000, 8, 0), 8, 2, 14336, "softmax");
  expected["model.block.norm.eps"] = expected["model.head.norm.eps"] = 1e-5;
  expected["model.block.attention.rotary.base"] = 1e6;
  EXPECT_EQ(model("{}"), expected);
  EXPECT_EQ(model(R"({"sliding_window": 131072})"), expected);
  EXPECT_EQ(model(R"({"num_experts": 8, "head_dim": null, "router_aux_loss_coef": 0.02,
                       "router_jitter_noise": 0})"),
            expected);
  EXPECT_EQ(model(R"({"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}})")
                .at("model.block.attention.rotary.base"),
            Value(1e4));
}

TEST_F(Qwen3MoeConverter, WhatIsAbsentIsTransformers) {
  Settings expected =
      with_experts(usual_decoder(32768, 151936, 4, 0), 128, 8, 768, "softmax_before");
  expected["model.layers"] = 24;
  expected["model.hidden"] = 2048;
  expected["model.block.attention.head_size"] = 64;
  for (const std::string norm : {"q_norm", "k_norm"}) {
    expected["model.block.attention." + norm + ".type"] = "rmsnorm";
    expected["model.block.attention." + norm + ".eps"] = 1e-6;
  }
  EXPECT_EQ(model("{}"), expected);
  EXPECT_EQ(model(R"({"num_local_experts": 128, "mlp_only_layers": [], "max_window_layers": 48})"),
            expected);
  expected["model.block.mlp.router.score"] = "softmax";
  EXPECT_EQ(model(R"({"norm_topk_prob": true})"), expected);
}

TEST_F(Qwen3MoeConverter, SomeLayersAreDense) {
  const auto pattern = [&](const std::string& keys) {
    return model("{\"num_hidden_layers\": 6, " + keys + "}").at("model.pattern");
  };
  EXPECT_EQ(pattern(R"("decoder_sparse_step": 2)"), Value("dense moe dense moe dense moe"));
  EXPECT_EQ(pattern(R"("decoder_sparse_step": 4)"), Value("dense*3 moe dense*2"));
  EXPECT_EQ(pattern(R"("mlp_only_layers": [0, 1, 9])"), Value("dense*2 moe*4"));
  EXPECT_EQ(pattern(R"("decoder_sparse_step": 2, "mlp_only_layers": [3])"),
            Value("dense moe dense*3 moe"));
  const Settings found = model(R"({"mlp_only_layers": [0]})");
  EXPECT_EQ(found.at("model.blocks.dense.mlp.type"), Value("gated_mlp"));
  EXPECT_EQ(found.at("model.blocks.dense.mlp.ffn"), Value(6144));
  EXPECT_EQ(found.at("model.blocks.moe.mlp.type"), Value("moe"));
  EXPECT_EQ(found.at("model.block.mlp.ffn"), Value(768));
}

TEST_F(MixtralConverter, AWindowIsOneWhereItIsGiven) {
  EXPECT_EQ(model(R"({"sliding_window": 8})").at("model.block.attention.window"), Value(8));
  for (const char* json : {"{}", R"({"null.sliding_window": true})"}) {
    EXPECT_FALSE(model(json).contains("model.block.attention.window")) << json;
  }
}

TEST_F(Qwen3MoeConverter, AWindowIsEveryLayersWhereItIsUsed) {
  const auto has = [&](const std::string& json) {
    return model(json).contains("model.block.attention.window");
  };
  EXPECT_EQ(model(R"({"use_sliding_window": true})").at("model.block.attention.window"),
            Value(4096));
  const Settings found = model(R"({"use_sliding_window": true, "sliding_window": 8,
                                   "mlp_only_layers": [0], "max_window_layers": 28})");
  EXPECT_EQ(found.at("model.block.attention.window"), Value(8));
  EXPECT_EQ(found.at("model.pattern"), Value("dense moe*23"));
  EXPECT_FALSE(has(R"({"sliding_window": 8})"));
  EXPECT_FALSE(has(R"({"use_sliding_window": true, "null.sliding_window": true})"));
}

TEST_F(MixtralConverter, WhatItCannotDoIsRefused) {
  for (const auto& [json, error] : std::vector<std::pair<const char*, const char*>>{
           {R"({"output_router_logits": true})",
            "config.json has output_router_logits = true; only false is supported"},
           {R"({"router_jitter_noise": 0.1})",
            "config.json has router_jitter_noise = 0.1; only 0.0 is supported"},
           {R"({"hidden_act": "gelu"})",
            "config.json has hidden_act = \"gelu\"; only \"silu\" is supported"},
           {R"({"num_experts": 4, "num_local_experts": 8})",
            "config.json has num_local_experts = 8 and num_experts = 4, which are one number"},
           {R"({"decoder_sparse_step": 2})",
            "config.json has decoder_sparse_step = 2, which it does not know: remove what changes "
            "nothing in the model"}}) {
    EXPECT_EQ(refused(json), error) << json;
  }
}

TEST_F(Qwen3MoeConverter, WhatItCannotDoIsRefused) {
  for (const auto& [json, error] : std::vector<std::pair<const char*, const char*>>{
           {R"({"use_sliding_window": true, "sliding_window": -1})",
            "config.json has sliding_window = -1; it is null, or at least 1"},
           {R"({"output_router_logits": true})",
            "config.json has output_router_logits = true; only false is supported"},
           {R"({"decoder_sparse_step": 0})",
            "config.json has decoder_sparse_step = 0; it is at least 1"},
           {R"({"mlp_only_layers": [0, "1"]})",
            R"(config.json: "mlp_only_layers" is [0, "1"], which is no list of layers)"},
           {R"({"num_hidden_layers": 2, "mlp_only_layers": [0, 1]})",
            "config.json has no layer with experts, by decoder_sparse_step = 1 and "
            "mlp_only_layers: it is no Qwen3-MoE"},
           {R"({"shared_expert_intermediate_size": 8})",
            "config.json has shared_expert_intermediate_size = 8, which it does not know: remove "
            "what changes nothing in the model"}}) {
    EXPECT_EQ(refused(json), error) << json;
  }
}

// Every key that is read goes back with its value.
TEST_F(MixtralConverter, BackIsTheSame) {
  expect_back(fmt::format(
      R"({{{}, "architectures": ["MixtralForCausalLM"], "num_local_experts": 4,
          "num_experts_per_tok": 3}})",
      kSizes));
  expect_back(fmt::format(
      R"({{{}, "architectures": ["MixtralForCausalLM"], "num_local_experts": 4,
          "num_experts_per_tok": 3, "sliding_window": 3}})",
      kSizes));
}

TEST_F(Qwen3MoeConverter, BackIsTheSame) {
  for (const char* keys : {R"("decoder_sparse_step": 1, "mlp_only_layers": [0, 2, 3],
                              "norm_topk_prob": true)",
                           R"("decoder_sparse_step": 2, "mlp_only_layers": [],
                              "norm_topk_prob": false)",
                           R"("decoder_sparse_step": 1, "mlp_only_layers": [0, 3],
                              "norm_topk_prob": false)",
                           R"("decoder_sparse_step": 1, "mlp_only_layers": [0],
                              "norm_topk_prob": false, "use_sliding_window": true,
                              "sliding_window": 3)"}) {
    // Of the first, only the second layer has experts: a step of 2 without the fourth.
    const std::string json = fmt::format("{{{}, {}, {}}}", kSizes, kExperts, keys);
    Settings expected = parse_settings(json, "");
    expected.try_emplace("use_sliding_window", false);
    if (expected.at("mlp_only_layers") == Value(Value::Array{0, 2, 3})) {
      expected["decoder_sparse_step"] = 2;
      expected["mlp_only_layers"] = Value::Array{3};
    }
    EXPECT_EQ(converter_->to_theirs(resolved(json)), expected) << json;
  }
  // Without a dense layer, nothing is as wide as intermediate_size.
  Settings expected =
      parse_settings(fmt::format("{{{}, {}, \"norm_topk_prob\": true}}", kSizes, kExperts), "");
  Settings found = converter_->to_theirs(
      resolved(fmt::format("{{{}, {}, \"norm_topk_prob\": true}}", kSizes, kExperts)));
  expected["use_sliding_window"] = false;
  expected["intermediate_size"] = 6144;
  expected["decoder_sparse_step"] = 1;
  expected["mlp_only_layers"] = Value::Array{};
  EXPECT_EQ(found, expected);
}

TEST_F(MixtralConverter, WhatMixtralCannotSayIsRefused) {
  for (const auto& [key, value, error] : std::vector<std::tuple<const char*, Value, const char*>>{
           {"model.block.mlp.type",
            "gated_mlp",
            "model.block.mlp.type = \"gated_mlp\"; Mixtral has \"moe\""},
           {"model.block.mlp.activation",
            "geglu",
            "model.block.mlp.activation = \"geglu\"; Mixtral has \"swiglu\""},
           {"model.block.mlp.shared_ffn", 8, "model.block.mlp.shared_ffn = 8; Mixtral has 0"},
           {"model.block.mlp.capacity_factor",
            1.5,
            "model.block.mlp.capacity_factor = 1.5; Mixtral has \"none\""},
           {"model.block.mlp.router.type",
            "expert_choice",
            "model.block.mlp.router.type = \"expert_choice\"; Mixtral has \"top_k\""},
           {"model.block.mlp.router.score",
            "softmax_before",
            "model.block.mlp.router.score = \"softmax_before\"; Mixtral has \"softmax\""},
           {"model.block.mlp.router.groups", 2, "model.block.mlp.router.groups = 2; Mixtral has 1"},
           {"model.block.mlp.router.scale",
            2.5,
            "model.block.mlp.router.scale = 2.5; Mixtral has 1.0"}}) {
    EXPECT_EQ(refused_back(key, value), error);
  }
}

TEST_F(Qwen3MoeConverter, WhatQwen3MoeCannotSayIsRefused) {
  const auto refused_of = [&](const char* json, const std::string& key, const Value& value) {
    Settings settings = resolved(json);
    settings[key] = value;
    return first_line([&] { converter_->to_theirs(settings); });
  };
  EXPECT_EQ(refused_back("model.block.mlp.router.score", "sigmoid"),
            "model.block.mlp.router.score = \"sigmoid\"; Qwen3-MoE has \"softmax\"");
  constexpr const char* kMixed = R"({"mlp_only_layers": [0]})";
  EXPECT_EQ(refused_of(kMixed, "model.blocks.dense.attention.kv_heads", 2),
            "model.blocks.dense.attention.kv_heads = 2 and model.blocks.moe.attention.kv_heads = "
            "4: Qwen3-MoE has one value for both");
  EXPECT_EQ(refused_of(kMixed, "model.blocks.dense.mlp.up.bias", true),
            "model.blocks.dense.mlp.up.bias = true; Qwen3-MoE has false");
  EXPECT_EQ(refused_of(kMixed, "model.blocks.dense.mlp.type", "mlp"),
            "model.blocks.dense.mlp.type = \"mlp\" and model.blocks.moe.mlp.type = \"moe\": "
            "Qwen3-MoE has one value for both");
  EXPECT_EQ(refused_of(kMixed, "model.pattern", "dense*24"),
            "model.blocks.dense.mlp.type = \"gated_mlp\"; Qwen3-MoE has \"moe\"");
}

TEST_F(MixtralConverter, ItsTensorsAreTilesOfOurs) {
  Settings theirs = parse_settings(kOneLayer, "");
  theirs["num_local_experts"] = 2;
  EXPECT_EQ(tensors(theirs), R"(embedding.weight 0 model.embed_tokens.weight
head.norm.weight 0 model.norm.weight
head.weight 0 lm_head.weight
layers.0.attention_norm.weight 0 model.layers.0.input_layernorm.weight
layers.0.mlp_norm.weight 0 model.layers.0.post_attention_layernorm.weight
layers.0.attention.qkv.weight 0 model.layers.0.self_attn.q_proj.weight
layers.0.attention.qkv.weight 12 model.layers.0.self_attn.k_proj.weight
layers.0.attention.qkv.weight 16 model.layers.0.self_attn.v_proj.weight
layers.0.attention.proj.weight 0 model.layers.0.self_attn.o_proj.weight
layers.0.mlp.router.weight 0 model.layers.0.block_sparse_moe.gate.weight
)");
  EXPECT_EQ(experts(theirs),
            R"(layers.0.mlp.experts.up 0 0 model.layers.0.block_sparse_moe.experts.0.w1.weight
layers.0.mlp.experts.up 0 20 model.layers.0.block_sparse_moe.experts.0.w3.weight
layers.0.mlp.experts.down 0 0 model.layers.0.block_sparse_moe.experts.0.w2.weight
layers.0.mlp.experts.up 1 0 model.layers.0.block_sparse_moe.experts.1.w1.weight
layers.0.mlp.experts.up 1 20 model.layers.0.block_sparse_moe.experts.1.w3.weight
layers.0.mlp.experts.down 1 0 model.layers.0.block_sparse_moe.experts.1.w2.weight
)");
}

TEST_F(Qwen3MoeConverter, ItsTensorsAreTilesOfOurs) {
  Settings theirs = parse_settings(kOneLayer, "");
  theirs["num_hidden_layers"] = 2;
  theirs["mlp_only_layers"] = Value::Array{0};
  theirs["num_experts"] = 2;
  theirs["moe_intermediate_size"] = 5;
  const std::string others = tensors(theirs);
  using ::testing::HasSubstr;
  EXPECT_THAT(others, HasSubstr("layers.0.mlp.up.weight 20 model.layers.0.mlp.up_proj.weight\n"));
  EXPECT_THAT(others, HasSubstr("layers.1.mlp.router.weight 0 model.layers.1.mlp.gate.weight\n"));
  EXPECT_THAT(others, ::testing::Not(HasSubstr("layers.1.mlp.up.weight")));
  EXPECT_EQ(experts(theirs),
            R"(layers.1.mlp.experts.up 0 0 model.layers.1.mlp.experts.0.gate_proj.weight
layers.1.mlp.experts.up 0 5 model.layers.1.mlp.experts.0.up_proj.weight
layers.1.mlp.experts.down 0 0 model.layers.1.mlp.experts.0.down_proj.weight
layers.1.mlp.experts.up 1 0 model.layers.1.mlp.experts.1.gate_proj.weight
layers.1.mlp.experts.up 1 5 model.layers.1.mlp.experts.1.up_proj.weight
layers.1.mlp.experts.down 1 0 model.layers.1.mlp.experts.1.down_proj.weight
)");
}

}  // namespace experts_converter_test
}  // namespace tessera

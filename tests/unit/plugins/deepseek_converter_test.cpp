// What a config.json of DeepSeek-V3 means here, and what is refused.
#include <cmath>

#include "decoder_converter.hpp"

namespace tessera {
namespace deepseek_converter_test {

class DeepSeekConverter : public DecoderConverter {
 protected:
  DeepSeekConverter() : DecoderConverter("deepseek_v3") {}
  Value attention(const std::string& json, const std::string& key) const {
    return model(json).at("model.block.attention." + key);
  }
};

constexpr const char* kSizes = R"("architectures": ["DeepseekV3ForCausalLM"], "vocab_size": 300,
  "hidden_size": 96, "intermediate_size": 256, "moe_intermediate_size": 40,
  "num_hidden_layers": 4, "num_attention_heads": 6, "num_key_value_heads": 6,
  "max_position_embeddings": 24, "initializer_range": 0.03, "rms_norm_eps": 1e-05,
  "tie_word_embeddings": true, "attention_dropout": 0.1, "hidden_act": "silu",
  "rope_theta": 5000.0, "kv_lora_rank": 16, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8,
  "v_head_dim": 10, "n_routed_experts": 8, "n_shared_experts": 2, "num_experts_per_tok": 4,
  "routed_scaling_factor": 1.5, "norm_topk_prob": true, "num_nextn_predict_layers": 0)";

TEST_F(DeepSeekConverter, WhatIsAbsentIsTransformers) {
  Settings expected = with_experts(usual_decoder(4096, 129280, 0, 0), 256, 8, 2048, "sigmoid");
  const Settings sizes = {{"model.layers", 61}, {"model.hidden", 7168}, {"model.heads", 128}};
  for (const auto& [key, value] : sizes) expected[key] = value;
  for (const std::string key : {"kv_heads", "head_size", "qkv.bias"}) {
    expected.erase("model.block.attention." + key);
  }
  const Settings attention = {{"type", "latent_attention"},
                              {"q_latent", 1536},
                              {"kv_latent", 512},
                              {"fixed_size", 128},
                              {"rotary_size", 64},
                              {"value_size", 128},
                              {"score_factor", 1.0},
                              {"rotary.interleaved", true},
                              {"q_down.bias", false},
                              {"q_norm.type", "rmsnorm"},
                              {"q_norm.eps", 1e-6},
                              {"q_up.bias", false},
                              {"kv_down.bias", false},
                              {"kv_norm.type", "rmsnorm"},
                              {"kv_norm.eps", 1e-6},
                              {"kv_up.bias", false}};
  for (const auto& [key, value] : attention) expected["model.block.attention." + key] = value;
  const Settings moe = {{"shared_ffn", 2048},
                        {"shared_gate", false},
                        {"router.bias", true},
                        {"router.groups", 8},
                        {"router.group_top_k", 4},
                        {"router.scale", 2.5}};
  for (const auto& [key, value] : moe) expected["model.block.mlp." + key] = value;
  const Settings dense = {{"type", "gated_mlp"},
                          {"activation", "swiglu"},
                          {"ffn", 18432},
                          {"up.bias", false},
                          {"down.bias", false}};
  for (const auto& [key, value] : dense) expected["model.blocks.dense.mlp." + key] = value;
  expected["model.blocks.moe.mlp.type"] = "moe";
  expected["model.pattern"] = "dense*3 moe*58";
  EXPECT_EQ(model("{}"), expected);
  EXPECT_EQ(model(R"({"num_nextn_predict_layers": 1, "ep_size": 1, "seq_aux": true,
    "aux_loss_alpha": 0.001, "moe_layer_freq": 1, "scoring_func": "sigmoid", "head_dim": 64,
    "qk_head_dim": 192, "topk_method": "noaux_tc", "pretraining_tp": 1})"),
            expected);
}

TEST_F(DeepSeekConverter, QueriesMayHaveNoLatent) {
  const Settings found = model(R"({"null.q_lora_rank": true, "attention_bias": true})");
  EXPECT_EQ(found.at("model.block.attention.q_latent"), Value("none"));
  EXPECT_FALSE(found.contains("model.block.attention.q_down.bias"));
  EXPECT_EQ(found.at("model.block.attention.kv_down.bias"), Value(true));
  EXPECT_EQ(found.at("model.block.attention.proj.bias"), Value(true));
  EXPECT_EQ(found.at("model.block.attention.kv_up.bias"), Value(false));
  EXPECT_EQ(attention(R"({"attention_bias": true})", "q_down.bias"), Value(true));
}

TEST_F(DeepSeekConverter, YarnFactorsScoresToo) {
  const std::string yarn = R"({"rope_scaling": {"type": "yarn", "factor": 40, "mscale": 0.7,
    "original_max_position_embeddings": 2048, "mscale_all_dim": 0.5}, "rope_interleave": false})";
  const double expected = std::pow(0.1 * 0.5 * std::log(40.0) + 1, 2);
  EXPECT_EQ(attention(yarn, "score_factor"), Value(expected));
  EXPECT_EQ(attention(yarn, "rotary.mscale"), Value(0.7));
  EXPECT_EQ(attention(yarn, "rotary.mscale_all_dim"), Value(0.5));
  EXPECT_EQ(attention(yarn, "rotary.interleaved"), Value(false));
  EXPECT_EQ(attention(R"({"null.rope_interleave": true})", "rotary.interleaved"), Value(false));
}

TEST_F(DeepSeekConverter, WhatItCannotDoIsRefused) {
  for (const auto& [json, error] : std::vector<std::pair<const char*, const char*>>{
           {R"({"quantization_config": {"quant_method": "fp8"}})",
            "config.json has quantization_config.quant_method = \"fp8\": quantized models are not "
            "read"},
           {R"({"topk_group": 2})",
            "config.json has num_experts_per_tok = 8, n_group = 8 and topk_group = 2; only n_group "
            "= 1 and topk_group = 1, or twice as many experts as groups, are supported: a group is "
            "as good as its best two experts there, and as its best num_experts_per_tok / "
            "topk_group here"},
           {R"({"n_group": 1, "topk_group": 4, "num_experts_per_tok": 6})",
            "config.json has num_experts_per_tok = 6, n_group = 1 and topk_group = 4; only n_group "
            "= 1 and topk_group = 1, or twice as many experts as groups, are supported: a group is "
            "as good as its best two experts there, and as its best num_experts_per_tok / "
            "topk_group here"},
           {R"({"norm_topk_prob": false})",
            "config.json has num_experts_per_tok = 8 and norm_topk_prob = false; only true is "
            "supported with it"},
           {R"({"num_experts_per_tok": 1, "n_group": 1, "topk_group": 1})",
            "config.json has num_experts_per_tok = 1 and norm_topk_prob = true; only false is "
            "supported with it"},
           {R"({"n_shared_experts": 0})", "config.json has n_shared_experts = 0; it is at least 1"},
           {R"({"moe_layer_freq": 2})", "config.json has moe_layer_freq = 2; only 1 is supported"},
           {R"({"scoring_func": "softmax"})",
            "config.json has scoring_func = \"softmax\"; only \"sigmoid\" is supported"},
           {R"({"topk_method": "greedy"})",
            "config.json has topk_method = \"greedy\"; only \"noaux_tc\" is supported"},
           {R"({"num_attention_heads": 16})",
            "config.json has num_attention_heads = 16 and num_key_value_heads = 128; with latent "
            "attention they are one number"},
           {R"({"first_k_dense_replace": 4, "num_hidden_layers": 4})",
            "config.json has no layer with experts, by first_k_dense_replace = 4: it is no "
            "DeepSeek-V3"},
           {R"({"head_dim": 56})", "config.json has head_dim = 56; only 64 is supported"},
           {R"({"sliding_window": 8})",
            "config.json has sliding_window = 8, which it does not know: remove what changes "
            "nothing in the model"}}) {
    EXPECT_EQ(refused(json), error) << json;
  }
}

// What the published files have after the last layer.
TEST_F(DeepSeekConverter, LayersThatPredictAheadAreRefused) {
  const Settings theirs = parse_settings(R"({"num_hidden_layers": 4})", "");
  EXPECT_EQ(first_line([&] { converter_->redundant("layers.4.eh_proj.weight", theirs); }),
            "\"model.layers.4.eh_proj.weight\" is of a layer after the 4 of num_hidden_layers: "
            "those of DeepSeek-V3 that predict further ahead are not read; leave their tensors "
            "out, as transformers does");
  EXPECT_FALSE(converter_->redundant("layers.3.eh_proj.weight", theirs));
  EXPECT_TRUE(converter_->redundant("layers.3.self_attn.rotary_emb.inv_freq", theirs));
}

// Every key that is read goes back with its value.
TEST_F(DeepSeekConverter, BackIsTheSame) {
  for (const char* keys :
       {R"("q_lora_rank": 20, "first_k_dense_replace": 1, "n_group": 4, "topk_group": 2,
           "attention_bias": true, "rope_interleave": true)",
        R"("null.q_lora_rank": true, "first_k_dense_replace": 3, "n_group": 1, "topk_group": 1,
           "attention_bias": true, "rope_interleave": false)",
        R"("q_lora_rank": 20, "first_k_dense_replace": 2, "n_group": 1, "topk_group": 1,
           "attention_bias": false, "rope_interleave": true, "rope_scaling": {
             "rope_type": "yarn", "factor": 2.0, "beta_fast": 16.0, "beta_slow": 2.0,
             "original_max_position_embeddings": 12, "mscale": 0.7, "mscale_all_dim": 0.9})"}) {
    expect_back(fmt::format("{{{}, {}}}", kSizes, keys));
  }
  // A bias that moves in training is one.
  Settings settings = resolved("{}");
  settings["model.block.mlp.router.bias"] = settings["model.blocks.moe.mlp.router.bias"] = "auto";
  settings["model.block.mlp.router.bias_rate"] = settings["model.blocks.moe.mlp.router.bias_rate"] =
      1e-3;
  EXPECT_EQ(converter_->to_theirs(settings).at("n_routed_experts"), Value(256));
}

TEST_F(DeepSeekConverter, WhatDeepSeekCannotSayIsRefused) {
  for (const auto& [key, value, error] : std::vector<std::tuple<std::string, Value, const char*>>{
           {"mlp.shared_ffn",
            100,
            "model.blocks.moe.mlp.shared_ffn = 100 and model.blocks.moe.mlp.ffn = 2048; "
            "DeepSeek-V3 has a multiple, of at least 1"},
           {"mlp.router.group_top_k",
            2,
            "model.blocks.moe.mlp.top_k = 8 and model.blocks.moe.mlp.router.group_top_k = 2; "
            "DeepSeek-V3 has twice as many experts as groups"},
           {"mlp.router.bias",
            false,
            "model.blocks.moe.mlp.router.bias = false; DeepSeek-V3 has "
            "true"},
           {"mlp.router.score",
            "softmax",
            "model.blocks.moe.mlp.router.score = \"softmax\"; "
            "DeepSeek-V3 has \"sigmoid\""}}) {
    Settings settings = resolved("{}");
    settings["model.blocks.moe." + key] = value;
    EXPECT_EQ(first_line([&] { converter_->to_theirs(settings); }), error);
  }
  for (const auto& [key, value, error] : std::vector<std::tuple<std::string, Value, const char*>>{
           {"attention.kv_norm.eps",
            1e-5,
            "model.blocks.dense.attention.kv_norm.eps = 1e-05; DeepSeek-V3 has 1e-06"},
           {"attention.score_factor",
            2.0,
            "model.blocks.dense.attention.score_factor = 2.0; DeepSeek-V3 has 1.0, by "
            "mscale_all_dim and factor of model.blocks.dense.attention.rotary"},
           {"attention.q_up.bias",
            true,
            "model.blocks.dense.attention.q_up.bias = true; DeepSeek-V3 has false"},
           {"attention.window",
            8,
            "model.blocks.dense.attention.window = 8; DeepSeek-V3 has \"none\""}}) {
    Settings settings = resolved("{}");
    for (const std::string kind : {"block", "blocks.dense", "blocks.moe"}) {
      settings["model." + kind + "." + key] = value;
    }
    EXPECT_EQ(first_line([&] { converter_->to_theirs(settings); }), error);
  }
  Settings settings = resolved("{}");
  settings["model.pattern"] = "moe dense*2 moe*58";
  EXPECT_EQ(first_line([&] { converter_->to_theirs(settings); }),
            "layer 1 has no experts and layer 0 has; layers of DeepSeek-V3 without are the first "
            "ones");
}

TEST_F(DeepSeekConverter, ItsTensorsAreTilesOfOurs) {
  Settings theirs = parse_settings(
      R"({"num_hidden_layers": 2, "first_k_dense_replace": 1, "intermediate_size": 20,
          "n_routed_experts": 1, "moe_intermediate_size": 5, "n_shared_experts": 2,
          "attention_bias": true})",
      "");
  EXPECT_EQ(tensors(theirs), R"(embedding.weight 0 model.embed_tokens.weight
head.norm.weight 0 model.norm.weight
head.weight 0 lm_head.weight
layers.0.attention_norm.weight 0 model.layers.0.input_layernorm.weight
layers.0.mlp_norm.weight 0 model.layers.0.post_attention_layernorm.weight
layers.0.attention.q_down.weight 0 model.layers.0.self_attn.q_a_proj.weight
layers.0.attention.q_norm.weight 0 model.layers.0.self_attn.q_a_layernorm.weight
layers.0.attention.q_up.weight 0 model.layers.0.self_attn.q_b_proj.weight
layers.0.attention.kv_down.weight 0 model.layers.0.self_attn.kv_a_proj_with_mqa.weight
layers.0.attention.kv_norm.weight 0 model.layers.0.self_attn.kv_a_layernorm.weight
layers.0.attention.kv_up.weight 0 model.layers.0.self_attn.kv_b_proj.weight
layers.0.attention.proj.weight 0 model.layers.0.self_attn.o_proj.weight
layers.0.mlp.up.weight 0 model.layers.0.mlp.gate_proj.weight
layers.0.mlp.up.weight 20 model.layers.0.mlp.up_proj.weight
layers.0.mlp.down.weight 0 model.layers.0.mlp.down_proj.weight
layers.0.attention.q_down.bias 0 model.layers.0.self_attn.q_a_proj.bias
layers.0.attention.kv_down.bias 0 model.layers.0.self_attn.kv_a_proj_with_mqa.bias
layers.0.attention.proj.bias 0 model.layers.0.self_attn.o_proj.bias
layers.1.attention_norm.weight 0 model.layers.1.input_layernorm.weight
layers.1.mlp_norm.weight 0 model.layers.1.post_attention_layernorm.weight
layers.1.attention.q_down.weight 0 model.layers.1.self_attn.q_a_proj.weight
layers.1.attention.q_norm.weight 0 model.layers.1.self_attn.q_a_layernorm.weight
layers.1.attention.q_up.weight 0 model.layers.1.self_attn.q_b_proj.weight
layers.1.attention.kv_down.weight 0 model.layers.1.self_attn.kv_a_proj_with_mqa.weight
layers.1.attention.kv_norm.weight 0 model.layers.1.self_attn.kv_a_layernorm.weight
layers.1.attention.kv_up.weight 0 model.layers.1.self_attn.kv_b_proj.weight
layers.1.attention.proj.weight 0 model.layers.1.self_attn.o_proj.weight
layers.1.mlp.router.weight 0 model.layers.1.mlp.gate.weight
layers.1.mlp.router.bias 0 model.layers.1.mlp.gate.e_score_correction_bias
layers.1.mlp.shared.up 0 model.layers.1.mlp.shared_experts.gate_proj.weight
layers.1.mlp.shared.up 10 model.layers.1.mlp.shared_experts.up_proj.weight
layers.1.mlp.shared.down 0 model.layers.1.mlp.shared_experts.down_proj.weight
layers.1.attention.q_down.bias 0 model.layers.1.self_attn.q_a_proj.bias
layers.1.attention.kv_down.bias 0 model.layers.1.self_attn.kv_a_proj_with_mqa.bias
layers.1.attention.proj.bias 0 model.layers.1.self_attn.o_proj.bias
)");
  EXPECT_THAT(experts(theirs),
              ::testing::HasSubstr(
                  "layers.1.mlp.experts.up 0 5 model.layers.1.mlp.experts.0.up_proj.weight\n"));
  theirs.insert({null_key("q_lora_rank"), true});
  EXPECT_THAT(tensors(theirs),
              ::testing::HasSubstr(
                  "layers.1.attention.q_up.weight 0 model.layers.1.self_attn.q_proj.weight\n"));
}

}  // namespace deepseek_converter_test
}  // namespace tessera

// What a config.json of Llama means here, and what is refused.
#include "decoder_converter.hpp"

namespace tessera {
namespace llama_converter_test {

using ::testing::ElementsAre;

class LlamaConverter : public DecoderConverter {
 protected:
  LlamaConverter() : DecoderConverter("llama") {}
  // Keys of the rotary positions.
  Settings rotary(const std::string& json) const {
    Settings found;
    const std::string prefix = "model.block.attention.rotary.";
    for (const auto& [key, value] : ours(json)) {
      if (key.starts_with(prefix)) found[key.substr(prefix.size())] = value;
    }
    return found;
  }
};

// What is absent is what transformers 5 takes.
TEST_F(LlamaConverter, WhatIsAbsentIsTransformers) {
  const Settings expected = usual_decoder(2048, 32000, 32, 11008);
  EXPECT_EQ(ours("{}").at("batch.sequence_length"), Value(2048));
  EXPECT_EQ(model("{}"), expected);
}

TEST_F(LlamaConverter, EachKeyHasItsPlace) {
  const Settings found = ours(R"({
    "architectures": ["LlamaForCausalLM"], "vocab_size": 300, "hidden_size": 96,
    "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 6,
    "num_key_value_heads": 2, "max_position_embeddings": 24, "initializer_range": 0.03,
    "rms_norm_eps": 1e-05, "tie_word_embeddings": true, "attention_bias": true,
    "attention_dropout": 0.1, "mlp_bias": true, "head_dim": 8, "pretraining_tp": 1,
    "rope_theta": 5000.0, "rope_scaling": null, "use_cache": true, "torch_dtype": "bfloat16",
    "bos_token_id": 1, "eos_token_id": [1, 2], "rope_interleaved": false})");
  for (const auto& [key, value] : Settings{{"model.layers", 2},
                                           {"model.hidden", 96},
                                           {"model.heads", 6},
                                           {"model.positions", 24},
                                           {"model.vocab", 300},
                                           {"model.tied_embeddings", true},
                                           {"model.init_std", 0.03},
                                           {"model.block.norm.eps", 1e-5},
                                           {"model.head.norm.eps", 1e-5},
                                           {"model.block.attention.kv_heads", 2},
                                           {"model.block.attention.head_size", 8},
                                           {"model.block.attention.qkv.bias", true},
                                           {"model.block.attention.proj.bias", true},
                                           {"model.block.attention.dropout", 0.1},
                                           {"model.block.attention.rotary.base", 5000.0},
                                           {"model.block.mlp.ffn", 256},
                                           {"model.block.mlp.up.bias", true},
                                           {"model.block.mlp.down.bias", true}}) {
    EXPECT_EQ(found.at(key), value) << key;
  }
  EXPECT_EQ(ours(R"({"hidden_size": 96, "num_attention_heads": 6, "head_dim": null})")
                .at("model.block.attention.head_size"),
            Value(16));
}

TEST_F(LlamaConverter, RotaryPositionsInBothSpellings) {
  const Settings plain = {
      {"type", "default"}, {"base", 100000.0}, {"fraction", 1.0}, {"interleaved", false}};
  EXPECT_EQ(rotary(R"({"rope_theta": 100000.0})"), plain);
  EXPECT_EQ(rotary(R"({"rope_parameters": {"rope_type": "default", "rope_theta": 100000.0}})"),
            plain);
  // A base within goes before one without, as in transformers.
  EXPECT_EQ(rotary(R"({"rope_theta": 1.0, "rope_parameters": {"rope_theta": 100000.0}})"), plain);

  Settings linear = plain;
  linear["type"] = "linear";
  linear["factor"] = 4.0;
  EXPECT_EQ(
      rotary(R"({"rope_theta": 100000.0, "rope_scaling": {"type": "linear", "factor": 4.0}})"),
      linear);

  Settings llama3 = plain;
  llama3["type"] = "llama3";
  llama3["factor"] = 8.0;
  llama3["low_frequency_factor"] = 1.0;
  llama3["high_frequency_factor"] = 4.0;
  llama3["original_positions"] = 8192;
  constexpr const char* kNumbers = R"("rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 8192)";
  EXPECT_EQ(rotary(fmt::format(R"({{"rope_theta": 100000.0, "rope_scaling": {{{}}}}})", kNumbers)),
            llama3);
  EXPECT_EQ(
      rotary(fmt::format(R"({{"rope_parameters": {{{}, "rope_theta": 100000.0}}}})", kNumbers)),
      llama3);

  Settings yarn = plain;
  yarn["base"] = 10000.0;
  yarn["type"] = "yarn";
  yarn["factor"] = 2.0;
  yarn["original_positions"] = 2048;  // as many as the model has
  yarn["beta_fast"] = 32.0;
  yarn["beta_slow"] = 1.0;
  EXPECT_EQ(rotary(R"({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}})"), yarn);
  yarn["attention_factor"] = 1.5;
  yarn["beta_fast"] = 16.0;
  EXPECT_EQ(rotary(R"({"rope_scaling": {"rope_type": "yarn", "factor": 2.0, "beta_fast": 16.0,
                       "attention_factor": 1.5, "truncate": true}})"),
            yarn);
}

TEST_F(LlamaConverter, WhatItCannotDoIsRefused) {
  for (const auto& [json, error] : std::vector<std::pair<const char*, const char*>>{
           {R"({"hidden_act": "gelu"})",
            R"(config.json has hidden_act = "gelu"; only "silu" is supported)"},
           {R"({"pretraining_tp": 2})", "config.json has pretraining_tp = 2; only 1 is supported"},
           {R"({"hidden_size": 10, "num_attention_heads": 4})",
            "config.json has hidden_size = 10 and num_attention_heads = 4, which does not divide "
            "it"},
           {R"({"partial_rotary_factor": 0.5})",
            "config.json has partial_rotary_factor = 0.5; only 1.0 is supported"},
           {R"({"rope_interleaved": true})",
            "config.json has rope_interleaved = true; only false is supported"},
           {R"({"rope_scaling": {"type": "dynamic", "factor": 2.0}})",
            "config.json has rope_scaling.type = \"dynamic\"; only \"default\", \"linear\", "
            "\"llama3\" and \"yarn\" are supported"},
           {R"({"rope_scaling": {"type": "linear"}})",
            "config.json has no \"rope_scaling.factor\""},
           {R"({"rope_scaling": {"type": "linear", "factor": 2}, "rope_parameters": {"a": 1}})",
            "config.json has rope_scaling and rope_parameters: one of them is enough"},
           {R"({"rope_scaling": {"rope_type": "linear", "factor": 2.0, "mscale": 1.0}})",
            "config.json has rope_scaling.mscale = 1.0: only yarn has it"},
           {R"({"rope_scaling": {"rope_type": "yarn", "factor": 2.0, "truncate": false}})",
            "config.json has rope_scaling.truncate = false; only true is supported"},
           {R"({"architectures": ["LlamaForSequenceClassification"]})",
            "config.json has architectures = [\"LlamaForSequenceClassification\"]; the converter "
            "reads LlamaForCausalLM and LlamaModel"},
           {R"({"sliding_window": 8})",
            "config.json has sliding_window = 8, which it does not know: remove what changes "
            "nothing in the model"},
           {R"({"rope_parameters": {"full_attention": {"rope_theta": 1e6}}})",
            "config.json has rope_parameters.full_attention.rope_theta = 1000000.0, which it does "
            "not know: remove what changes nothing in the model"}}) {
    EXPECT_EQ(refused(json), error) << json;
  }
}

// Every key that is read goes back with its value.
TEST_F(LlamaConverter, BackIsTheSame) {
  const std::string sizes = R"("vocab_size": 300, "hidden_size": 96, "intermediate_size": 256,
    "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2,
    "max_position_embeddings": 24, "initializer_range": 0.03, "rms_norm_eps": 1e-05,
    "tie_word_embeddings": true, "attention_bias": true, "attention_dropout": 0.1,
    "mlp_bias": true, "head_dim": 8, "pretraining_tp": 1, "hidden_act": "silu",
    "architectures": ["LlamaForCausalLM"], "rope_theta": 5000.0)";
  for (const std::string rope :
       {R"()",
        R"(, "rope_scaling": {"rope_type": "linear", "factor": 4.0})",
        R"(, "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
             "high_freq_factor": 4.0, "original_max_position_embeddings": 12})",
        R"(, "rope_scaling": {"rope_type": "yarn", "factor": 2.0, "beta_fast": 16.0,
             "beta_slow": 2.0, "original_max_position_embeddings": 12})",
        R"(, "rope_scaling": {"rope_type": "yarn", "factor": 2.0, "beta_fast": 16.0,
             "beta_slow": 2.0, "original_max_position_embeddings": 12,
             "attention_factor": 1.5})",
        R"(, "rope_scaling": {"rope_type": "yarn", "factor": 2.0, "beta_fast": 16.0,
             "beta_slow": 2.0, "original_max_position_embeddings": 12, "mscale": 0.7,
             "mscale_all_dim": 1.0})"}) {
    expect_back("{" + sizes + rope + "}");
  }
  Settings automatic = resolved("{}");
  for (const char* key : {"attention.kv_heads", "attention.head_size", "mlp.ffn"}) {
    automatic["model.block." + std::string(key)] = "auto";
  }
  automatic["model.block.attention.rotary.attention_factor"] = "auto";  // not of this type
  automatic["model.block.attention.q_norm.type"] = "";                  // slots that are not set
  automatic["model.block.attention.k_norm.type"] = "";
  const Settings theirs = converter_->to_theirs(automatic);
  EXPECT_EQ(theirs.at("num_key_value_heads"), Value(32));
  EXPECT_EQ(theirs.at("head_dim"), Value(128));
  EXPECT_EQ(theirs.at("intermediate_size"), Value(10880));  // 8/3 of 4096 is 10922
}

TEST_F(LlamaConverter, WhatLlamaCannotSayIsRefused) {
  for (const auto& [key, value, error] : std::vector<std::tuple<const char*, Value, const char*>>{
           {"model.type", "bert", "model.type = \"bert\"; Llama has \"gpt\""},
           {"model.embedding.learned_positions",
            true,
            "model.embedding.learned_positions = true; Llama has false"},
           {"model.block.norm.type",
            "layernorm",
            "model.block.norm.type = \"layernorm\"; Llama has \"rmsnorm\""},
           {"model.block.mlp.activation",
            "geglu",
            "model.block.mlp.activation = \"geglu\"; Llama has \"swiglu\""},
           {"model.block.attention.window",
            3,
            "model.block.attention.window = 3; Llama has \"none\""},
           {"model.block.attention.type",
            "latent_attention",
            "model.block.attention.type = \"latent_attention\"; Llama has \"self_attention\""},
           {"model.block.attention.rotary.interleaved",
            true,
            "model.block.attention.rotary.interleaved = true; Llama has false"},
           {"model.block.attention.rotary.fraction",
            0.5,
            "model.block.attention.rotary.fraction = 0.5; Llama has 1.0"},
           {"model.block.attention.rotary.type",
            "none",
            "model.block.attention.rotary.type = \"none\"; Llama has \"default\", \"linear\", "
            "\"llama3\" and \"yarn\""},
           {"model.block.attention.proj.bias",
            true,
            "model.block.attention.qkv.bias = false and model.block.attention.proj.bias = true: "
            "Llama has one value for both"},
           {"model.head.norm.eps",
            1e-3,
            "model.block.norm.eps = 1e-06 and model.head.norm.eps = 0.001: Llama has one value for "
            "both"},
           {"model.block.attention.q_norm.type",
            "rmsnorm",
            "model.block.attention.q_norm.type = \"rmsnorm\"; Llama has \"none\""},
           {"model.block.attention.k_norm.type",
            "rmsnorm",
            "model.block.attention.k_norm.type = \"rmsnorm\"; Llama has \"none\""},
           {"model.blocks.a.mlp.ffn",
            8,
            "model.blocks.a.mlp.ffn = 8 differs from [model.block]: Llama has blocks of one "
            "kind"}}) {
    EXPECT_EQ(refused_back(key, value), error);
  }
}

TEST_F(LlamaConverter, ItsTensorsAreTilesOfOurs) {
  const Settings theirs = parse_settings(kOneLayer, "");
  EXPECT_EQ(tensors(theirs), kOneLayerTensors);
  EXPECT_TRUE(converter_->shared(theirs).empty());
  Settings tied = theirs;
  tied["tie_word_embeddings"] = true;
  tied["attention_bias"] = tied["mlp_bias"] = true;
  EXPECT_EQ(converter_->shared(tied).at(0).name, "lm_head.weight");
  EXPECT_EQ(converter_->tensors(tied).size(), converter_->tensors(theirs).size() - 1 + 7);
  EXPECT_TRUE(converter_->redundant("layers.0.self_attn.rotary_emb.inv_freq", theirs));
}

TEST_F(LlamaConverter, TheTokenizerIsTheOneOfTheFolder) {
  const Settings expected = {{"tokenizer.type", "huggingface"},
                             {"tokenizer.path", "/m/tokenizer"},
                             {"tokenizer.most_tokens", 300}};
  EXPECT_EQ(converter_->tokenizer("/m/tokenizer", {"tokenizer.json"}, {{"vocab_size", 300}}),
            expected);
  EXPECT_THAT(converter_->tokenizer_files().sets,
              ElementsAre(ElementsAre("tokenizer.json"), ElementsAre("tokenizer.model")));
  const Settings pieces = {{"tokenizer.type", "sentencepiece"}, {"tokenizer.path", "/m/tokenizer"}};
  EXPECT_EQ(converter_->tokenizer("/m/tokenizer", {"tokenizer.model"}, {{"vocab_size", 300}}),
            pieces);
  EXPECT_EQ(converter_->tokenizer(
                "/m/tokenizer", {"tokenizer.json", "tokenizer.model"}, {{"vocab_size", 300}}),
            expected);
  // A class of transformers has tokens of its own where config.json is silent.
  EXPECT_EQ(converter_->token_ids(nullptr, {}),
            (TokenIds{{"bos_token_id", std::nullopt}, {"eos_token_id", std::nullopt}}));
}

}  // namespace llama_converter_test
}  // namespace tessera

#include "families.hpp"

namespace tessera {

namespace {

// The defaults that all families have, and then a family's own.
Settings defaults_and(Settings own) {
  own.merge(Settings{{"attention_dropout", 0.0},
                     {"hidden_act", "silu"},
                     {"hidden_size", 4096},
                     {"initializer_range", 0.02},
                     {"num_attention_heads", 32},
                     {"num_hidden_layers", 32},
                     {"rms_norm_eps", 1e-6},
                     {"tie_word_embeddings", false}});
  return own;
}

Settings qwen_defaults_and(Settings own) {
  own.merge(Settings{{"intermediate_size", 22016},
                     {"max_position_embeddings", 32768},
                     {"num_key_value_heads", 32},
                     {"use_sliding_window", false},
                     {"vocab_size", 151936}});
  return defaults_and(std::move(own));
}

}  // namespace

const Family& llama_family() {
  static const Family kLlama = {.type = "llama",
                                .name = "Llama",
                                .with_head = "LlamaForCausalLM",
                                .without_head = "LlamaModel",
                                .doc = "LlamaForCausalLM of Hugging Face transformers, both ways",
                                .defaults = defaults_and({{"attention_bias", false},
                                                          {"intermediate_size", 11008},
                                                          {"max_position_embeddings", 2048},
                                                          {"mlp_bias", false},
                                                          {"pretraining_tp", 1},
                                                          {"vocab_size", 32000}}),
                                .only = {{"pretraining_tp", 1}},
                                .harmless = {"max_sequence_length", "is_llama_config"},
                                .whole_heads = true};
  return kLlama;
}

const Family& mistral_family() {
  static const Family kMistral = {
      .type = "mistral",
      .name = "Mistral",
      .with_head = "MistralForCausalLM",
      .without_head = "MistralModel",
      .doc = "MistralForCausalLM of Hugging Face transformers, both ways",
      .defaults = defaults_and({{"intermediate_size", 14336},
                                {"max_position_embeddings", 131072},
                                {"num_key_value_heads", 8},
                                {"vocab_size", 32000}}),
      .windows = Windows::every};
  return kMistral;
}

const Family& qwen2_family() {
  static const Family kQwen2 = {.type = "qwen2",
                                .name = "Qwen2",
                                .with_head = "Qwen2ForCausalLM",
                                .without_head = "Qwen2Model",
                                .doc = "Qwen2ForCausalLM of Hugging Face transformers, both ways",
                                .defaults = qwen_defaults_and({}),
                                .only = {{"use_mrope", false}},
                                .windows = Windows::optional,
                                .qkv_bias = true};
  return kQwen2;
}

const Family& qwen3_family() {
  static const Family kQwen3 = {
      .type = "qwen3",
      .name = "Qwen3",
      .with_head = "Qwen3ForCausalLM",
      .without_head = "Qwen3Model",
      .doc = "Qwen3ForCausalLM of Hugging Face transformers, both ways",
      .defaults = qwen_defaults_and({{"attention_bias", false}, {"head_dim", 128}}),
      .windows = Windows::optional,
      .head_norms = true};
  return kQwen3;
}

}  // namespace tessera

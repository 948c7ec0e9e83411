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

// transformers adds the loss that balances experts only where it gives the router's logits; it is
// of all layers at once, which none of ours is.
constexpr const char *kGivesLogits = "output_router_logits", *kBalance = "router_aux_loss_coef";

const Family& mixtral_family() {
  static const Family kMixtral = {
      .type = "mixtral",
      .name = "Mixtral",
      .with_head = "MixtralForCausalLM",
      .without_head = "MixtralModel",
      .doc = "MixtralForCausalLM of Hugging Face transformers, both ways",
      .defaults = defaults_and({{"intermediate_size", 14336},
                                {"max_position_embeddings", 131072},
                                {"num_experts_per_tok", 2},
                                {"num_key_value_heads", 8},
                                {"num_local_experts", 8},
                                {"rms_norm_eps", 1e-5},
                                {"vocab_size", 32000}}),
      .only = {{kGivesLogits, false}, {"router_jitter_noise", 0.0}},
      .harmless = {kBalance},
      .windows = Windows::given,
      .rope_theta = 1'000'000,
      .experts = Experts{.count = "num_local_experts",
                         .also_count = "num_experts",
                         .ffn = "intermediate_size",
                         .sums_to_one = nullptr,
                         .dense = DenseLayers::none,
                         .layer = "block_sparse_moe",
                         .gate = "w1",
                         .up = "w3",
                         .down = "w2"}};
  return kMixtral;
}

const Family& qwen3_moe_family() {
  static const Family kQwen3Moe = {
      .type = "qwen3_moe",
      .name = "Qwen3-MoE",
      .with_head = "Qwen3MoeForCausalLM",
      .without_head = "Qwen3MoeModel",
      .doc = "Qwen3MoeForCausalLM of Hugging Face transformers, both ways",
      .defaults = qwen_defaults_and({{"attention_bias", false},
                                     {"decoder_sparse_step", 1},
                                     {"hidden_size", 2048},
                                     {"intermediate_size", 6144},
                                     {"moe_intermediate_size", 768},
                                     {"norm_topk_prob", false},
                                     {"num_experts", 128},
                                     {"num_experts_per_tok", 8},
                                     {"num_hidden_layers", 24},
                                     {"num_key_value_heads", 4}}),
      .only = {{kGivesLogits, false}},
      .harmless = {kBalance, "max_window_layers"},
      .windows = Windows::used,
      .head_norms = true,
      .experts = Experts{.count = "num_experts",
                         .also_count = "num_local_experts",
                         .ffn = "moe_intermediate_size",
                         .sums_to_one = "norm_topk_prob",
                         .dense = DenseLayers::stepped,
                         .layer = "mlp",
                         .gate = "gate_proj",
                         .up = "up_proj",
                         .down = "down_proj"}};
  return kQwen3Moe;
}

const Family& deepseek_v3_family() {
  static const Family kDeepSeekV3 = {
      .type = "deepseek_v3",
      .name = "DeepSeek-V3",
      .with_head = "DeepseekV3ForCausalLM",
      .without_head = "DeepseekV3Model",
      .doc = "DeepseekV3ForCausalLM of Hugging Face transformers, both ways",
      .defaults = defaults_and({{"attention_bias", false},
                                {"first_k_dense_replace", 3},
                                {"hidden_size", 7168},
                                {"intermediate_size", 18432},
                                {"kv_lora_rank", 512},
                                {"max_position_embeddings", 4096},
                                {"moe_intermediate_size", 2048},
                                {"n_group", 8},
                                {"n_routed_experts", 256},
                                {"n_shared_experts", 1},
                                {"norm_topk_prob", true},
                                {"num_attention_heads", 128},
                                {"num_experts_per_tok", 8},
                                {"num_hidden_layers", 61},
                                {"num_key_value_heads", 128},
                                {"num_nextn_predict_layers", 0},
                                {"q_lora_rank", 1536},
                                {"qk_nope_head_dim", 128},
                                {"qk_rope_head_dim", 64},
                                {"rope_interleave", true},
                                {"routed_scaling_factor", 2.5},
                                {"topk_group", 4},
                                {"v_head_dim", 128},
                                {"vocab_size", 129280}}),
      .only = {{kGivesLogits, false},
               {"moe_layer_freq", 1},
               {"pretraining_tp", 1},
               {"scoring_func", "sigmoid"},
               {"topk_method", "noaux_tc"}},
      // How many layers predict further ahead is said whether or not the files have them.
      .harmless = {kBalance,
                   "aux_loss_alpha",
                   "ep_size",
                   "num_mtp_layers",
                   "num_nextn_predict_layers",
                   "seq_aux"},
      .latent = true,
      .experts = Experts{.count = "n_routed_experts",
                         .also_count = "num_local_experts",
                         .ffn = "moe_intermediate_size",
                         .sums_to_one = "norm_topk_prob",
                         .dense = DenseLayers::first,
                         .layer = "mlp",
                         .gate = "gate_proj",
                         .up = "up_proj",
                         .down = "down_proj",
                         .grouped = true}};
  return kDeepSeekV3;
}

}  // namespace tessera

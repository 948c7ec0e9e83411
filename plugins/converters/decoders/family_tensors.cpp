#include "family_tensors.hpp"

#include <fmt/format.h>

#include <optional>

#include "layer_mlps.hpp"

namespace tessera {

namespace {

constexpr const char *kTable = "model.embed_tokens.weight", *kHead = "lm_head.weight";

// Matrices of experts are [in, out] here, and one parameter for all of them.
void add_experts(i64 layer,
                 const FamilyExperts& experts,
                 const Experts& names,
                 std::vector<ConvertedTensor>& all) {
  const std::string ours = fmt::format("layers.{}.mlp.", layer);
  const std::string theirs = fmt::format("model.layers.{}.{}.", layer, names.layer);
  all.push_back({ours + "router.weight", theirs + "gate.weight"});
  for (i64 entry = 0; entry < experts.count; ++entry) {
    const auto add = [&](const char* to, const char* name, i64 column) {
      all.push_back({ours + to,
                     fmt::format("{}experts.{}.{}.weight", theirs, entry, name),
                     true,
                     {.column = column, .entry = entry}});
    };
    add("experts.up", names.gate, 0);
    add("experts.up", names.up, experts.ffn);
    add("experts.down", names.down, 0);
  }
}

}  // namespace

// Rotary positions turn halves of a head in both programs, so rows keep their order.
std::vector<ConvertedTensor> family_tensors(FamilyConfig& config) {
  const FamilySizes sizes(config);
  const FamilyBiases biases(config);
  const i64 queries = sizes.heads * sizes.head, keys = sizes.groups * sizes.head;
  std::vector<ConvertedTensor> all = {{"embedding.weight", kTable},
                                      {"head.norm.weight", "model.norm.weight"}};
  if (!config.flag("tie_word_embeddings")) all.push_back({"head.weight", kHead});
  std::optional<FamilyExperts> experts;
  if (config.family().experts) experts.emplace(config);
  for (i64 layer = 0; layer < sizes.layers; ++layer) {
    const auto add =
        [&](const std::string& ours, const std::string& name, const char* part, i64 row = 0) {
          all.push_back({fmt::format("layers.{}.{}.{}", layer, ours, part),
                         fmt::format("model.layers.{}.{}.{}", layer, name, part),
                         false,
                         {.row = row}});
        };
    const auto add_qkv = [&](const char* part) {
      add("attention.qkv", "self_attn.q_proj", part);
      add("attention.qkv", "self_attn.k_proj", part, queries);
      add("attention.qkv", "self_attn.v_proj", part, queries + keys);
    };
    const auto add_mlp = [&](const char* part) {
      add("mlp.up", "mlp.gate_proj", part);
      add("mlp.up", "mlp.up_proj", part, sizes.ffn);
      add("mlp.down", "mlp.down_proj", part);
    };
    add("attention_norm", "input_layernorm", "weight");
    add("mlp_norm", "post_attention_layernorm", "weight");
    add_qkv("weight");
    for (const std::string norm : kHeadNorms) {
      if (config.family().head_norms) add("attention." + norm, "self_attn." + norm, "weight");
    }
    add("attention.proj", "self_attn.o_proj", "weight");
    const bool sparse = experts && experts->layers[static_cast<std::size_t>(layer)];
    if (sparse) {
      add_experts(layer, *experts, *config.family().experts, all);
    } else {
      add_mlp("weight");
    }
    if (biases.qkv) add_qkv("bias");
    if (biases.proj) add("attention.proj", "self_attn.o_proj", "bias");
    if (biases.mlp && !sparse) add_mlp("bias");
  }
  return all;
}

std::vector<SharedTensor> family_shared(FamilyConfig& config) {
  if (!config.flag("tie_word_embeddings")) return {};
  return {{kHead, kTable, {{"tie_word_embeddings", false}}}};
}

}  // namespace tessera

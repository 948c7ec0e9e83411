#include "family_tensors.hpp"

#include <fmt/format.h>

#include <optional>

#include "family_attention.hpp"
#include "layer_experts.hpp"

namespace tessera {

namespace {

constexpr const char *kTable = "model.embed_tokens.weight", *kHead = "lm_head.weight";

// Matrices of experts are [in, out] here, and one parameter for all of them.
void add_experts(i64 layer,
                 const FamilyExperts& experts,
                 const Experts& names,
                 i64 shared_ffn,
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
  if (!names.grouped) return;
  all.push_back({ours + "router.bias", theirs + "gate.e_score_correction_bias"});
  const std::string shared = theirs + "shared_experts.";
  all.push_back({ours + "shared.up", shared + names.gate + ".weight"});
  all.push_back({ours + "shared.up", shared + names.up + ".weight", false, {.row = shared_ffn}});
  all.push_back({ours + "shared.down", shared + names.down + ".weight"});
}

}  // namespace

std::vector<ConvertedTensor> family_tensors(FamilyConfig& config) {
  const FamilySizes sizes(config);
  const FamilyBiases biases(config);
  std::vector<ConvertedTensor> all = {{"embedding.weight", kTable},
                                      {"head.norm.weight", "model.norm.weight"}};
  if (!config.flag("tie_word_embeddings")) all.push_back({"head.weight", kHead});
  std::optional<FamilyExperts> experts;
  i64 shared_ffn = 0;
  if (config.family().experts) {
    experts.emplace(config);
    shared_ffn = config.integer("n_shared_experts", 0) * experts->ffn;
  }
  for (i64 layer = 0; layer < sizes.layers; ++layer) {
    const auto add =
        [&](const std::string& ours, const std::string& name, const char* part, i64 row = 0) {
          all.push_back({fmt::format("layers.{}.{}.{}", layer, ours, part),
                         fmt::format("model.layers.{}.{}.{}", layer, name, part),
                         false,
                         {.row = row}});
        };
    const auto add_mlp = [&](const char* part) {
      add("mlp.up", "mlp.gate_proj", part);
      add("mlp.up", "mlp.up_proj", part, sizes.ffn);
      add("mlp.down", "mlp.down_proj", part);
    };
    const std::vector<ConvertedTensor> attention = attention_tensors(config, layer);
    const auto add_attention = [&](bool bias) {
      for (const ConvertedTensor& one : attention) {
        if (one.ours.ends_with(".bias") == bias) all.push_back(one);
      }
    };
    add("attention_norm", "input_layernorm", "weight");
    add("mlp_norm", "post_attention_layernorm", "weight");
    add_attention(false);
    const bool sparse = experts && experts->layers[static_cast<std::size_t>(layer)];
    if (sparse) {
      add_experts(layer, *experts, *config.family().experts, shared_ffn, all);
    } else {
      add_mlp("weight");
    }
    add_attention(true);
    if (biases.mlp && !sparse) add_mlp("bias");
  }
  return all;
}

std::vector<SharedTensor> family_shared(FamilyConfig& config) {
  if (!config.flag("tie_word_embeddings")) return {};
  return {{kHead, kTable, {{"tie_word_embeddings", false}}}};
}

}  // namespace tessera

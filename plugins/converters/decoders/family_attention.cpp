// Attention whose queries, keys and values are products with the hidden features.
#include "family_attention.hpp"

#include <fmt/format.h>

#include "latent.hpp"
#include "rotary.hpp"

namespace tessera {

namespace {

std::string attention(std::string_view key, const std::string& block = "model.block") {
  return fmt::format("{}.attention.{}", block, key);
}

// The norms of heads have the epsilon of all norms.
void norms_to_theirs(const ModelKeys& ours, const std::string& block, const Family& family) {
  for (const std::string slot : kHeadNorms) {
    if (!family.head_norms) {
      require_none(ours, attention(slot, block));
      continue;
    }
    ours.only(attention(slot + ".type", block), "rmsnorm");
    ours.same({block + ".norm.eps", attention(slot + ".eps", block)});
  }
}

// Sets the key that the family has; without it, biases are as they always are.
void biases_to_theirs(const ModelKeys& ours,
                      const std::string& block,
                      const Family& family,
                      Settings& theirs) {
  const std::string qkv = attention("qkv.bias", block), proj = attention("proj.bias", block);
  if (theirs.contains("attention_bias")) {
    theirs["attention_bias"] = ours.same({qkv, proj});
  } else {
    ours.only({{qkv, family.qkv_bias}, {proj, false}});
  }
}

Settings rotary_to_ours(FamilyConfig& config) {
  const bool interleaved = config.flag("rope_interleave");
  return rotary_to_ours(config.claims(),
                        config.integer("max_position_embeddings"),
                        config.family().rope_theta,
                        interleaved);
}

}  // namespace

Settings attention_to_ours(FamilyConfig& config) {
  Settings ours = rotary_to_ours(config);
  ours[attention("dropout")] = config.get("attention_dropout");
  if (config.family().latent) {
    ours.merge(latent_to_ours(config, ours));
    return ours;
  }
  const FamilySizes sizes(config);
  const FamilyBiases biases(config);
  ours[attention("kv_heads")] = sizes.groups;
  ours[attention("head_size")] = sizes.head;
  ours[attention("qkv.bias")] = biases.qkv;
  ours[attention("proj.bias")] = biases.proj;
  for (const std::string slot : kHeadNorms) {
    if (!config.family().head_norms) continue;
    ours[attention(slot + ".type")] = "rmsnorm";
    ours[attention(slot + ".eps")] = config.get("rms_norm_eps");
  }
  return ours;
}

void attention_to_theirs(const ModelKeys& ours,
                         const std::string& block,
                         const Family& family,
                         Settings& theirs) {
  const auto key = [&](std::string_view name) { return attention(name, block); };
  ours.only(key("type"), family.latent ? "latent_attention" : "self_attention");
  const i64 hidden = ours.integer("model.hidden"), heads = ours.integer(key("heads"));
  theirs["num_attention_heads"] = heads;
  theirs["attention_dropout"] = ours.at(key("dropout"));
  Settings rotary = rotary_to_theirs(ours, block, family.name);
  theirs.merge(rotary);
  if (family.latent) {
    theirs["rope_interleave"] = ours.at(key("rotary.interleaved"));
    latent_to_theirs(ours, block, family, theirs);
    return;
  }
  ours.only({{key("causal"), true}, {key("rotary.interleaved"), false}});
  theirs["num_key_value_heads"] = ours.at(key("kv_heads"), heads);
  theirs["head_dim"] = ours.at(key("head_size"), heads > 0 ? hidden / heads : 0);
  norms_to_theirs(ours, block, family);
  biases_to_theirs(ours, block, family, theirs);
}

// Where rotary positions turn halves of a head, they do in both programs, so rows keep their order.
std::vector<ConvertedTensor> attention_tensors(FamilyConfig& config, i64 layer) {
  if (config.family().latent) return latent_tensors(config, layer);
  const FamilySizes sizes(config);
  const FamilyBiases biases(config);
  const i64 queries = sizes.heads * sizes.head, keys = sizes.groups * sizes.head;
  std::vector<ConvertedTensor> all;
  const auto add = [&](std::string_view ours, std::string_view theirs, i64 row = 0) {
    all.push_back({fmt::format("layers.{}.attention.{}", layer, ours),
                   fmt::format("model.layers.{}.self_attn.{}", layer, theirs),
                   false,
                   {.row = row}});
  };
  const auto add_qkv = [&](const std::string& part) {
    add("qkv." + part, "q_proj." + part);
    add("qkv." + part, "k_proj." + part, queries);
    add("qkv." + part, "v_proj." + part, queries + keys);
  };
  add_qkv("weight");
  for (const std::string norm : kHeadNorms) {
    if (config.family().head_norms) add(norm + ".weight", norm + ".weight");
  }
  add("proj.weight", "o_proj.weight");
  if (biases.qkv) add_qkv("bias");
  if (biases.proj) add("proj.bias", "o_proj.bias");
  return all;
}

}  // namespace tessera

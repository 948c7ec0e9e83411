// Multi-head latent attention (DeepSeek-AI 2024, "DeepSeek-V2", §2.1).
#include "latent.hpp"

#include <fmt/format.h>

#include <cmath>

#include "tessera/error.hpp"

namespace tessera {

namespace {

constexpr const char* kQueries = "q_lora_rank";
// In transformers the norms of latents have an epsilon of their own, whatever config.json says.
constexpr double kLatentEps = 1e-6;

// Sizes, there and here.
struct Size {
  const char *theirs, *ours;
};
constexpr Size kRotary = {"qk_rope_head_dim", "rotary_size"};
constexpr Size kSizes[] = {{"kv_lora_rank", "kv_latent"},
                           {"qk_nope_head_dim", "fixed_size"},
                           kRotary,
                           {"v_head_dim", "value_size"}};

bool has_query_latent(FamilyConfig& config) { return !config.is_null(kQueries); }

std::optional<double> number_at(const Settings& all, const std::string& key) {
  const auto found = all.find(key);
  if (found == all.end()) return std::nullopt;
  if (const auto* whole = std::get_if<i64>(&found->second.data)) {
    return static_cast<double>(*whole);
  }
  const auto* number = std::get_if<double>(&found->second.data);
  return number == nullptr ? std::nullopt : std::optional(*number);
}

// What scores are multiplied by where YaRN stretches positions (transformers: yarn_apply_mscale).
double score_factor(const Settings& all, const std::string& rotary) {
  const auto share = number_at(all, rotary + "mscale_all_dim");
  const auto factor = number_at(all, rotary + "factor");
  if (!share || !factor) return 1;
  return std::pow(0.1 * *share * std::log(*factor) + 1, 2);
}

void require_heads_of_keys(FamilyConfig& config) {
  const FamilySizes sizes(config);
  if (sizes.groups == sizes.heads) return;
  fail_config(
      "{} has num_attention_heads = {} and num_key_value_heads = {}; with latent attention they "
      "are one number",
      config.claims().file(),
      sizes.heads,
      sizes.groups);
}

}  // namespace

Settings latent_to_ours(FamilyConfig& config, const Settings& rotary) {
  require_heads_of_keys(config);
  Claims& theirs = config.claims();
  const std::string at = "model.block.attention.";
  const bool queries = has_query_latent(config), bias = FamilyBiases(config).proj;
  Settings ours = {{at + "type", "latent_attention"},
                   {at + "q_latent", queries ? config.get(kQueries) : Value("none")},
                   {at + "score_factor", score_factor(rotary, at + "rotary.")},
                   {at + "q_up.bias", false},
                   {at + "kv_down.bias", bias},
                   {at + "kv_norm.type", "rmsnorm"},
                   {at + "kv_norm.eps", kLatentEps},
                   {at + "kv_up.bias", false},
                   {at + "proj.bias", bias}};
  if (queries) {
    ours[at + "q_down.bias"] = bias;
    ours[at + "q_norm.type"] = "rmsnorm";
    ours[at + "q_norm.eps"] = kLatentEps;
  }
  for (const Size& size : kSizes) ours[at + size.ours] = config.integer(size.theirs);
  // Sums and copies of sizes, which transformers writes too.
  theirs.only("qk_head_dim", config.integer("qk_nope_head_dim") + config.integer(kRotary.theirs));
  theirs.only("head_dim", config.integer(kRotary.theirs));
  return ours;
}

void latent_to_theirs(const ModelKeys& ours,
                      const std::string& block,
                      const Family& family,
                      Settings& theirs) {
  const std::string at = block + ".attention.";
  for (const Size& size : kSizes) {
    theirs[size.theirs] = ours.at(at + size.ours, ours.at(at + "fixed_size"));
  }
  const Value& queries = ours.at(at + "q_latent");
  const bool with = queries != Value("none");
  std::vector<std::string> biases = {at + "kv_down.bias", at + "proj.bias"};
  if (with) {
    theirs[kQueries] = queries;
    biases.push_back(at + "q_down.bias");
    ours.only({{at + "q_norm.type", "rmsnorm"}, {at + "q_norm.eps", kLatentEps}});
  } else {
    theirs.erase(kQueries);
    theirs[null_key(kQueries)] = true;
  }
  theirs["attention_bias"] = ours.same(biases);
  theirs["num_key_value_heads"] = theirs.at("num_attention_heads");
  ours.only({{at + "kv_norm.type", "rmsnorm"},
             {at + "kv_norm.eps", kLatentEps},
             {at + "q_up.bias", false},
             {at + "kv_up.bias", false}});
  const double wanted = score_factor(theirs, "rope_scaling.");
  const std::string key = at + "score_factor";
  const auto said = number_at({{key, ours.at(key)}}, key);
  if (said && std::abs(*said - wanted) <= 1e-12 * wanted) return;
  fail_config("{} = {}; {} has {}, by mscale_all_dim and factor of {}rotary",
              key,
              ours.at(key).text(),
              family.name,
              Value(wanted).text(),
              at);
}

std::vector<ConvertedTensor> latent_tensors(FamilyConfig& config, i64 layer) {
  std::vector<ConvertedTensor> all;
  const auto add = [&](std::string_view ours, std::string_view theirs) {
    all.push_back({fmt::format("layers.{}.attention.{}", layer, ours),
                   fmt::format("model.layers.{}.self_attn.{}", layer, theirs)});
  };
  const bool queries = has_query_latent(config);
  if (queries) {
    add("q_down.weight", "q_a_proj.weight");
    add("q_norm.weight", "q_a_layernorm.weight");
  }
  add("q_up.weight", queries ? "q_b_proj.weight" : "q_proj.weight");
  add("kv_down.weight", "kv_a_proj_with_mqa.weight");
  add("kv_norm.weight", "kv_a_layernorm.weight");
  add("kv_up.weight", "kv_b_proj.weight");
  add("proj.weight", "o_proj.weight");
  if (!FamilyBiases(config).proj) return all;
  if (queries) add("q_down.bias", "q_a_proj.bias");
  add("kv_down.bias", "kv_a_proj_with_mqa.bias");
  add("proj.bias", "o_proj.bias");
  return all;
}

}  // namespace tessera

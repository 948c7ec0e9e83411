// How tokens choose their experts: softmax, or DeepSeek's sigmoids with biases, groups and shared
// experts (DeepSeek-AI 2024, "DeepSeek-V3", §2.1.2).
#include <fmt/format.h>

#include "layer_experts.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

constexpr const char *kTopK = "num_experts_per_tok", *kGroups = "n_group",
                     *kGroupTopK = "topk_group", *kShared = "n_shared_experts",
                     *kScale = "routed_scaling_factor";

// What is always so where scores are softmaxes.
Settings without_groups() {
  return {
      {"shared_ffn", 0}, {"router.groups", 1}, {"router.group_top_k", 1}, {"router.scale", 1.0}};
}

// In transformers the score of a group is the sum of its best two, here of its best top_k /
// group_top_k.
void require_same_groups(FamilyConfig& config, i64 top_k, i64 groups, i64 chosen) {
  if (groups == 1 ? chosen == 1 : top_k == 2 * chosen) return;
  fail_config(
      "{} has {} = {}, {} = {} and {} = {}; only {} = 1 and {} = 1, or twice as many experts as "
      "groups, are supported: a group is as good as its best two experts there, and as its best "
      "{} / {} here",
      config.claims().file(),
      kTopK,
      top_k,
      kGroups,
      groups,
      kGroupTopK,
      chosen,
      kGroups,
      kGroupTopK,
      kTopK,
      kGroupTopK);
}

Settings grouped_to_ours(FamilyConfig& config, const FamilyExperts& experts) {
  const i64 groups = config.integer(kGroups), chosen = config.integer(kGroupTopK);
  const i64 shared = config.integer(kShared);
  require_same_groups(config, experts.top_k, groups, chosen);
  if (shared < 1) {
    fail_config("{} has {} = {}; it is at least 1", config.claims().file(), kShared, shared);
  }
  // Here, weights of several experts add up to 1, and that of one is its score.
  const char* sums = config.family().experts->sums_to_one;
  const bool several = experts.top_k > 1;
  if (config.flag(sums) != several) {
    fail_config("{} has {} = {} and {} = {}; only {} is supported with it",
                config.claims().file(),
                kTopK,
                experts.top_k,
                sums,
                !several,
                several);
  }
  return {{"shared_ffn", shared * experts.ffn},
          {"shared_gate", false},
          {"router.score", "sigmoid"},
          {"router.bias", true},
          {"router.groups", groups},
          {"router.group_top_k", chosen},
          {"router.scale", config.get(kScale)}};
}

void grouped_to_theirs(const ModelKeys& ours,
                       const std::string& mlp,
                       const Family& family,
                       Settings& theirs) {
  ours.only({{mlp + "shared_gate", false}, {mlp + "router.score", "sigmoid"}});
  const i64 ffn = ours.integer(mlp + "ffn"), shared = ours.integer(mlp + "shared_ffn");
  const i64 top_k = ours.integer(mlp + "top_k");
  const i64 groups = ours.integer(mlp + "router.groups"),
            chosen = ours.integer(mlp + "router.group_top_k");
  if (shared < ffn || shared % ffn != 0) {
    fail_config("{0}shared_ffn = {1} and {0}ffn = {2}; {3} has a multiple, of at least 1",
                mlp,
                shared,
                ffn,
                family.name);
  }
  if (groups > 1 && top_k != 2 * chosen) {
    fail_config(
        "{0}top_k = {1} and {0}router.group_top_k = {2}; {3} has twice as many experts as "
        "groups",
        mlp,
        top_k,
        chosen,
        family.name);
  }
  const std::string bias = mlp + "router.bias", rate = mlp + "router.bias_rate";
  const Value* moves = ours.find(rate);
  const bool moved = moves != nullptr && !same_value(*moves, 0.0);
  if (!moved || ours.at(bias) != Value("auto")) ours.only(bias, true);
  theirs[kShared] = shared / ffn;
  theirs[kGroups] = groups;
  theirs[kGroupTopK] = chosen;
  theirs[kScale] = ours.at(mlp + "router.scale");
  theirs[family.experts->sums_to_one] = top_k > 1;
}

}  // namespace

Settings routing_to_ours(FamilyConfig& config, const FamilyExperts& experts) {
  if (config.family().experts->grouped) return grouped_to_ours(config, experts);
  const char* sums_to_one = config.family().experts->sums_to_one;
  const bool after = sums_to_one == nullptr || config.flag(sums_to_one);
  Settings ours = without_groups();
  ours["router.score"] = after ? "softmax" : "softmax_before";
  return ours;
}

void routing_to_theirs(const ModelKeys& ours,
                       const std::string& mlp,
                       const Family& family,
                       Settings& theirs) {
  const Experts& experts = *family.experts;
  if (experts.grouped) {
    grouped_to_theirs(ours, mlp, family, theirs);
    return;
  }
  for (const auto& [key, value] : without_groups()) ours.only(mlp + key, value);
  const std::string score = mlp + "router.score";
  const bool before = ours.at(score) == Value("softmax_before");
  if (!before || experts.sums_to_one == nullptr) ours.only(score, "softmax");
  if (experts.sums_to_one != nullptr) theirs[experts.sums_to_one] = !before;
}

}  // namespace tessera

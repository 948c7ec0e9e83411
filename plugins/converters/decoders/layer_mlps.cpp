// What each layer has between its second norm and its residual: a dense MLP, or experts.
#include "layer_mlps.hpp"

#include <algorithm>
#include <map>
#include <span>

#include "layer_experts.hpp"
#include "layer_kinds.hpp"

namespace tessera {

namespace {

constexpr const char *kDense = "dense", *kSparse = "moe";

// What a dense MLP and what experts always are.
Settings fixed_dense() { return {{"type", "gated_mlp"}, {"activation", "swiglu"}}; }
Settings fixed_experts() {
  return {{"type", "moe"},
          {"activation", "swiglu"},
          {"capacity_factor", "none"},
          {"router.type", "top_k"}};
}

// All that is said of one.
constexpr const char* kDenseKeys[] = {"type", "activation", "ffn", "up.bias", "down.bias"};
constexpr const char* kExpertKeys[] = {"type",
                                       "activation",
                                       "experts",
                                       "top_k",
                                       "ffn",
                                       "shared_ffn",
                                       "capacity_factor",
                                       "router.type",
                                       "router.score",
                                       "router.groups",
                                       "router.group_top_k",
                                       "router.scale"};

void put(Settings& all, const std::string& table, const Settings& keys) {
  for (const auto& [key, value] : keys) all[table + "." + key] = value;
}

Settings dense_to_ours(FamilyConfig& config) {
  const FamilySizes sizes(config);
  const FamilyBiases biases(config);
  Settings mlp = fixed_dense();
  mlp["ffn"] = sizes.ffn;
  mlp["up.bias"] = mlp["down.bias"] = biases.mlp;
  return mlp;
}

Settings experts_to_ours(FamilyConfig& config, const FamilyExperts& experts) {
  Settings moe = routing_to_ours(config, experts);
  moe.merge(fixed_experts());
  moe["experts"] = experts.count;
  moe["top_k"] = experts.top_k;
  moe["ffn"] = experts.ffn;
  return moe;
}

// As the layer's "auto" is: 8/3 of the hidden size, in 64s.
i64 usual_ffn(i64 hidden) { return std::max<i64>(hidden * 8 / 3 / 64, 1) * 64; }

void dense_to_theirs(const ModelKeys& ours, const std::string& mlp, Settings& theirs) {
  for (const auto& [key, value] : fixed_dense()) ours.only(mlp + key, value);
  theirs["intermediate_size"] = ours.at(mlp + "ffn", usual_ffn(ours.integer("model.hidden")));
  const std::string up = mlp + "up.bias", down = mlp + "down.bias";
  if (theirs.contains("mlp_bias")) {
    theirs["mlp_bias"] = ours.same({up, down});
  } else {
    ours.only({{up, false}, {down, false}});
  }
}

void experts_to_theirs(const ModelKeys& ours,
                       const std::string& mlp,
                       const Family& family,
                       Settings& theirs) {
  const Experts& experts = *family.experts;
  for (const auto& [key, value] : fixed_experts()) ours.only(mlp + key, value);
  theirs[experts.count] = ours.at(mlp + "experts");
  theirs["num_experts_per_tok"] = ours.at(mlp + "top_k");
  theirs[experts.ffn] = ours.at(mlp + "ffn", 4 * ours.integer("model.hidden"));
  routing_to_theirs(ours, mlp, family, theirs);
}

}  // namespace

Settings mlps_to_ours(FamilyConfig& config) {
  Settings ours;
  if (!config.family().experts) {
    put(ours, "model.block.mlp", dense_to_ours(config));
    return ours;
  }
  const FamilyExperts experts(config);
  put(ours, "model.block.mlp", experts_to_ours(config, experts));
  if (experts.everywhere()) return ours;
  ours["model.pattern"] = pattern_of(experts.layers, kSparse, kDense);
  put(ours, table_of(kSparse), {{"mlp.type", "moe"}});
  put(ours, table_of(kDense) + ".mlp", dense_to_ours(config));
  return ours;
}

void mlps_to_theirs(const ModelKeys& ours,
                    const std::vector<std::string>& blocks,
                    const Family& family,
                    Settings& theirs) {
  std::vector<bool> with_experts;
  std::map<bool, std::string> first;  // of the blocks with experts, and of those without
  for (const std::string& block : blocks) {
    const std::string mlp = block + ".mlp.";
    const bool sparse = family.experts && ours.at(mlp + "type") != Value("gated_mlp");
    with_experts.push_back(sparse);
    const std::string& other = first.try_emplace(sparse, mlp).first->second;
    if (other == mlp) continue;
    using Keys = std::span<const char* const>;
    for (const char* key : sparse ? Keys(kExpertKeys) : Keys(kDenseKeys)) {
      ours.same({other + key, mlp + key});
    }
  }
  if (family.experts && first.contains(false)) {
    const bool possible = family.experts->dense != DenseLayers::none && first.contains(true);
    if (!possible) ours.only(first.at(false) + "type", "moe");
  }
  if (first.contains(false)) dense_to_theirs(ours, first.at(false), theirs);
  if (!family.experts) return;
  experts_to_theirs(ours, first.at(true), family, theirs);
  expert_layers_to_theirs(with_experts, family, theirs);
}

}  // namespace tessera

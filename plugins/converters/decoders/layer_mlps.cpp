// What each layer has between its second norm and its residual: a dense MLP, or experts.
#include "layer_mlps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <span>

#include "tessera/error.hpp"
#include "tessera/io/written.hpp"
#include "tessera/pattern.hpp"

namespace tessera {

namespace {

constexpr const char *kStep = "decoder_sparse_step", *kDenseLayers = "mlp_only_layers";
constexpr const char *kKinds = "model.blocks.", *kDense = "dense", *kSparse = "moe";

std::string table_of(const std::string& kind) { return kKinds + kind; }

// What a dense MLP and what experts always are.
Settings fixed_dense() { return {{"type", "gated_mlp"}, {"activation", "swiglu"}}; }
Settings fixed_experts() {
  return {{"type", "moe"},
          {"activation", "swiglu"},
          {"shared_ffn", 0},
          {"capacity_factor", "none"},
          {"router.type", "top_k"},
          {"router.groups", 1},
          {"router.group_top_k", 1},
          {"router.scale", 1.0}};
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

// The number of experts has one name in a family and another in transformers' own words.
i64 count_of(FamilyConfig& config) {
  const Experts& experts = *config.family().experts;
  Claims& theirs = config.claims();
  if (theirs.find(experts.also_count) == nullptr) return config.integer(experts.count);
  const i64 also = theirs.integer(experts.also_count);
  if (theirs.find(experts.count) != nullptr && theirs.integer(experts.count) != also) {
    fail_config("{} has {} = {} and {} = {}, which are one number",
                theirs.file(),
                experts.count,
                theirs.integer(experts.count),
                experts.also_count,
                also);
  }
  return also;
}

std::vector<i64> dense_layers_in(Claims& theirs) {
  std::vector<i64> layers;
  const Value* value = theirs.find(kDenseLayers);
  if (value == nullptr) return layers;
  const auto* list = std::get_if<Value::Array>(&value->data);
  const auto is_layer = [](const Value& one) { return std::holds_alternative<i64>(one.data); };
  if (list == nullptr || !std::ranges::all_of(*list, is_layer)) {
    fail_config("{}: \"{}\" is {}, which is no list of layers",
                theirs.file(),
                kDenseLayers,
                written_plain(value->text()));
  }
  for (const Value& one : *list) layers.push_back(std::get<i64>(one.data));
  return layers;
}

Settings experts_to_ours(FamilyConfig& config, const FamilyExperts& experts) {
  const char* sums_to_one = config.family().experts->sums_to_one;
  const bool after = sums_to_one == nullptr || config.flag(sums_to_one);
  Settings moe = fixed_experts();
  moe["experts"] = experts.count;
  moe["top_k"] = experts.top_k;
  moe["ffn"] = experts.ffn;
  moe["router.score"] = after ? "softmax" : "softmax_before";
  return moe;
}

// "dense moe*3"
std::string pattern_of(const std::vector<bool>& with_experts) {
  std::string pattern;
  for (std::size_t i = 0, end = 0; i < with_experts.size(); i = end) {
    while (end < with_experts.size() && with_experts[end] == with_experts[i]) ++end;
    pattern += fmt::format("{}{}", i == 0 ? "" : " ", with_experts[i] ? kSparse : kDense);
    if (end - i > 1) pattern += fmt::format("*{}", end - i);
  }
  return pattern;
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
                       const Experts& experts,
                       Settings& theirs) {
  for (const auto& [key, value] : fixed_experts()) ours.only(mlp + key, value);
  theirs[experts.count] = ours.at(mlp + "experts");
  theirs["num_experts_per_tok"] = ours.at(mlp + "top_k");
  theirs[experts.ffn] = ours.at(mlp + "ffn", 4 * ours.integer("model.hidden"));
  const std::string score = mlp + "router.score";
  const bool before = ours.at(score) == Value("softmax_before");
  if (!before || experts.sums_to_one == nullptr) ours.only(score, "softmax");
  if (experts.sums_to_one != nullptr) theirs[experts.sums_to_one] = !before;
}

// The largest step that all layers with experts are multiples of, and those between that have none.
void layers_to_theirs(const std::vector<bool>& with_experts, Settings& theirs) {
  i64 step = 0;
  for (std::size_t i = 0; i < with_experts.size(); ++i) {
    if (with_experts[i]) step = std::gcd(step, static_cast<i64>(i) + 1);
  }
  Value::Array dense;
  for (std::size_t i = 0; i < with_experts.size(); ++i) {
    const auto layer = static_cast<i64>(i);
    if (!with_experts[i] && (layer + 1) % step == 0) dense.emplace_back(layer);
  }
  theirs[kStep] = step;
  theirs[kDenseLayers] = dense;
}

}  // namespace

FamilyExperts::FamilyExperts(FamilyConfig& config)
    : count(count_of(config)),
      top_k(config.integer("num_experts_per_tok")),
      ffn(config.integer(config.family().experts->ffn)) {
  Claims& theirs = config.claims();
  const i64 number = config.integer("num_hidden_layers");
  if (!config.family().experts->dense_layers) {
    layers.assign(static_cast<std::size_t>(number), true);
    return;
  }
  const i64 step = config.integer(kStep);
  if (step < 1) fail_config("{} has {} = {}; it is at least 1", theirs.file(), kStep, step);
  const std::vector<i64> dense = dense_layers_in(theirs);
  for (i64 i = 0; i < number; ++i) {
    layers.push_back((i + 1) % step == 0 && std::ranges::find(dense, i) == dense.end());
  }
  if (std::ranges::find(layers, true) != layers.end()) return;
  fail_config("{} has no layer with experts, by {} = {} and {}: it is no {}",
              theirs.file(),
              kStep,
              step,
              kDenseLayers,
              config.family().name);
}

bool FamilyExperts::everywhere() const { return std::ranges::find(layers, false) == layers.end(); }

Settings mlps_to_ours(FamilyConfig& config) {
  Settings ours;
  if (!config.family().experts) {
    put(ours, "model.block.mlp", dense_to_ours(config));
    return ours;
  }
  const FamilyExperts experts(config);
  put(ours, "model.block.mlp", experts_to_ours(config, experts));
  if (experts.everywhere()) return ours;
  ours["model.pattern"] = pattern_of(experts.layers);
  put(ours, table_of(kSparse), {{"mlp.type", "moe"}});
  put(ours, table_of(kDense) + ".mlp", dense_to_ours(config));
  return ours;
}

std::vector<std::string> blocks_of(const Settings& all,
                                   const ModelKeys& ours,
                                   const Family& family) {
  std::vector<std::string> blocks;
  const Value* pattern = ours.find("model.pattern");
  if (!family.experts || pattern == nullptr || *pattern == Value("")) {
    ours.only_one_kind();
    blocks.assign(static_cast<std::size_t>(ours.integer("model.layers")), "model.block");
    return blocks;
  }
  const auto name = [&](std::string_view rest) {
    const std::size_t length = std::min(rest.find_first_of(" ,()*"), rest.size());
    if (length == 0) fail_config("model.pattern = {} begins with no name", pattern->text());
    return length;
  };
  for (const std::string& kind : expand_pattern(std::get<std::string>(pattern->data), name)) {
    blocks.push_back(table_of(kind));
  }
  for (auto at = all.lower_bound(kKinds); at != all.end() && at->first.starts_with(kKinds); ++at) {
    const std::string rest = at->first.substr(at->first.find('.', std::string_view(kKinds).size()));
    if (!rest.starts_with(".mlp.")) ours.same({blocks.at(0) + rest, at->first});
  }
  return blocks;
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
    const bool possible = family.experts->dense_layers && first.contains(true);
    if (!possible) ours.only(first.at(false) + "type", "moe");
  }
  if (first.contains(false)) dense_to_theirs(ours, first.at(false), theirs);
  if (!family.experts) return;
  experts_to_theirs(ours, first.at(true), *family.experts, theirs);
  if (family.experts->dense_layers) layers_to_theirs(with_experts, theirs);
}

}  // namespace tessera

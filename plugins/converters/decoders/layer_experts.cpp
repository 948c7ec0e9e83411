// Which layers have experts instead of a dense MLP.
#include "layer_experts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

constexpr const char *kStep = "decoder_sparse_step", *kDenseLayers = "mlp_only_layers",
                     *kFirstDense = "first_k_dense_replace";

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

std::vector<bool> stepped_layers(FamilyConfig& config, i64 number) {
  Claims& theirs = config.claims();
  const i64 step = config.integer(kStep);
  if (step < 1) fail_config("{} has {} = {}; it is at least 1", theirs.file(), kStep, step);
  const std::vector<i64> dense = dense_layers_in(theirs);
  std::vector<bool> layers;
  for (i64 i = 0; i < number; ++i) {
    layers.push_back((i + 1) % step == 0 && std::ranges::find(dense, i) == dense.end());
  }
  return layers;
}

// The largest step that all layers with experts are multiples of, and those between that have none.
void steps_to_theirs(const std::vector<bool>& with_experts, Settings& theirs) {
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
  const i64 number = config.integer("num_hidden_layers");
  std::string by;  // what says that a layer has none
  switch (config.family().experts->dense) {
    case DenseLayers::none:
      layers.assign(static_cast<std::size_t>(number), true);
      return;
    case DenseLayers::stepped:
      layers = stepped_layers(config, number);
      by = fmt::format("{} = {} and {}", kStep, config.integer(kStep), kDenseLayers);
      break;
    case DenseLayers::first:
      for (i64 i = 0; i < number; ++i) layers.push_back(i >= config.integer(kFirstDense));
      by = fmt::format("{} = {}", kFirstDense, config.integer(kFirstDense));
      break;
  }
  if (std::ranges::find(layers, true) != layers.end()) return;
  fail_config("{} has no layer with experts, by {}: it is no {}",
              config.claims().file(),
              by,
              config.family().name);
}

bool FamilyExperts::everywhere() const { return std::ranges::find(layers, false) == layers.end(); }

void expert_layers_to_theirs(const std::vector<bool>& with_experts,
                             const Family& family,
                             Settings& theirs) {
  const DenseLayers dense = family.experts->dense;
  if (dense == DenseLayers::stepped) steps_to_theirs(with_experts, theirs);
  if (dense != DenseLayers::first) return;
  const auto first = std::ranges::find(with_experts, true);
  const auto later = std::find(first, with_experts.end(), false);
  if (later != with_experts.end()) {
    fail_config("layer {} has no experts and layer {} has; layers of {} without are the first ones",
                later - with_experts.begin(),
                first - with_experts.begin(),
                family.name);
  }
  theirs[kFirstDense] = static_cast<i64>(first - with_experts.begin());
}

}  // namespace tessera

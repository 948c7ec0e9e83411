#include "expert_load.hpp"

#include <algorithm>
#include <numeric>

namespace tessera {

namespace {

double total(std::span<const double> counts) {
  return std::accumulate(counts.begin(), counts.end(), 0.0);
}

}  // namespace

std::function<std::vector<LayerMetric>(std::span<const double>)> ExpertLoad::metrics(bool drops) {
  return [drops](std::span<const double> sums) -> std::vector<LayerMetric> {
    const std::span<const double> chosen = drops ? sums.first(sums.size() / 2) : sums;
    const double choices = total(chosen);
    if (choices == 0) return {};
    const double mean = choices / static_cast<double>(chosen.size());
    const auto empty = static_cast<double>(std::ranges::count(chosen, 0.0));
    std::vector<LayerMetric> out = {
        {"moe_imbalance", std::ranges::max(chosen) / mean, MetricReduce::max},
        {"moe_empty_experts", empty, MetricReduce::sum}};
    if (!drops) return out;
    const double kept = total(sums.last(sums.size() / 2));
    out.push_back({"moe_dropped", (choices - kept) / choices, MetricReduce::mean});
    return out;
  };
}

}  // namespace tessera

#include "kernel/train/run/sampling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "tessera/error.hpp"
#include "tessera/random.hpp"

namespace tessera {

namespace {

template <class T>
void require_within(const char* flag, T value, bool within, std::string_view bounds) {
  if (!within) fail_config("{} {}: {}", flag, value, bounds);
}

// The logits after the penalty.
std::vector<double> penalized(const std::vector<float>& logits,
                              const std::vector<i32>& text,
                              double penalty) {
  std::vector<double> values(logits.begin(), logits.end());
  if (penalty == 1) return values;
  std::vector<bool> seen(values.size());
  for (const i32 id : text) {
    const auto at = static_cast<std::size_t>(id);
    if (at >= values.size() || seen[at]) continue;
    seen[at] = true;
    values[at] = values[at] > 0 ? values[at] / penalty : values[at] * penalty;
  }
  return values;
}

void keep_top_k(std::vector<double>& weights, const std::vector<double>& values, i64 k) {
  if (k >= static_cast<i64>(values.size())) return;
  std::vector<double> ordered = values;
  const auto kth = ordered.begin() + (k - 1);
  std::ranges::nth_element(ordered, kth, std::greater<>());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] < *kth) weights[i] = 0;
  }
}

// Tokens are taken, the most likely first and of equal ones the first, until the others have no
// more than 1 - p.
void keep_top_p(std::vector<double>& weights, double p) {
  if (p >= 1) return;
  std::vector<std::pair<double, std::size_t>> heap;
  const auto later = [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second > b.second;
  };
  double rest = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] > 0) heap.emplace_back(weights[i], i);
    rest += weights[i];
  }
  const double most = (1 - p) * rest;
  std::vector<double> kept(weights.size());
  std::ranges::make_heap(heap, later);
  do {
    std::ranges::pop_heap(heap, later);
    const auto [weight, at] = heap.back();
    heap.pop_back();
    kept[at] = weight;
    rest -= weight;
  } while (!heap.empty() && rest > most);
  weights = std::move(kept);
}

void keep_min_p(std::vector<double>& weights, double p) {
  for (double& weight : weights) {
    if (weight < p) weight = 0;
  }
}

}  // namespace

void check_sampling(const Sampling& sampling) {
  const auto& [temperature, seed, top_k, top_p, min_p, penalty] = sampling;
  require_within("--top-k",
                 top_k,
                 top_k >= 1 && top_k <= kMostVocabulary,
                 fmt::format("at least 1 and at most {}", kMostVocabulary));
  require_within("--top-p", top_p, top_p > 0 && top_p <= 1, "above 0 and at most 1");
  require_within("--min-p", min_p, min_p >= 0 && min_p <= 1, "at least 0 and at most 1");
  require_within("--repetition-penalty",
                 penalty,
                 penalty >= 1e-3 && penalty <= 1e3,
                 "at least 0.001 and at most 1000");
  const std::string greedy = "no effect with --temperature 0, which takes the most likely token";
  if (temperature > 0) return;
  require_within("--top-k", top_k, top_k == kMostVocabulary, greedy);
  require_within("--top-p", top_p, top_p == 1, greedy);
  require_within("--min-p", min_p, min_p == 0, greedy);
}

std::vector<double> token_weights(const std::vector<float>& logits,
                                  const std::vector<i32>& text,
                                  const Sampling& sampling) {
  require(!logits.empty(), "there are no logits to choose from");
  const bool finite = std::ranges::all_of(logits, [](float x) { return std::isfinite(x); });
  require(finite, "the model's output is not finite");
  const std::vector<double> values = penalized(logits, text, sampling.repetition_penalty);
  const auto best = std::ranges::max_element(values);
  std::vector<double> weights(values.size());
  if (sampling.temperature <= 0) {
    weights[static_cast<std::size_t>(best - values.begin())] = 1;
    return weights;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    weights[i] = std::exp((values[i] - *best) / sampling.temperature);
  }
  keep_top_k(weights, values, sampling.top_k);
  keep_top_p(weights, sampling.top_p);
  keep_min_p(weights, sampling.min_p);
  return weights;
}

i32 choose_token(const std::vector<double>& weights, double uniform) {
  std::vector<double> sums;  // of the weights up to each token
  double sum = 0;
  for (const double weight : weights) sums.push_back(sum += weight);
  require(sum > 0, "there is no token to choose");
  // Below 1 the product is below the sum, so this is a token that adds to it.
  return static_cast<i32>(std::ranges::upper_bound(sums, uniform * sum) - sums.begin());
}

double sampling_number(u64 seed, i64 prompt, i64 position) {
  const std::string name = prompt == 0 ? "generate" : fmt::format("generate.{}", prompt);
  return random_uniform(random_key(seed, name), static_cast<u64>(position));
}

}  // namespace tessera

#include "invariant_support.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tessera::testing {

namespace {

double largest(const std::vector<double>& values) {
  double max = 0;
  for (const double value : values) max = std::max(max, std::abs(value));
  return max;
}

// Plain gradient descent shows errors of scale that Adam hides.
const Sets& plain_descent() {
  static const Sets kSets = {
      "optimizer.rule.type=\"sgd\"", "lr.warmup_steps=0", "optimizer.clip=0"};
  return kSets;
}

const Sets& in_double() {
  static const Sets kSets = {"precision.compute=\"fp64\"", "precision.main=\"fp64\""};
  return kSets;
}

}  // namespace

Sets with(Sets sets, const Sets& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

std::string difference(const std::vector<double>& got,
                       const std::vector<double>& want,
                       double tolerance,
                       std::string_view what) {
  if (got.size() != want.size()) {
    return fmt::format("{} values of {}, expected {}", got.size(), what, want.size());
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::abs(got[i] - want[i]) <= tolerance * std::abs(want[i])) continue;
    return fmt::format("{} of step {} is {:.9g}, expected {:.9g}", what, i + 1, got[i], want[i]);
  }
  return {};
}

std::string difference(const Tensors& got, const Tensors& want) {
  if (got.size() != want.size()) {
    return fmt::format("{} tensors, expected {}", got.size(), want.size());
  }
  double of_all = 0;
  for (const auto& [name, values] : want) of_all = std::max(of_all, largest(values));
  for (const auto& [name, values] : want) {
    const auto found = got.find(name);
    if (found == got.end()) return fmt::format("\"{}\" is missing", name);
    if (found->second.size() != values.size()) {
      return fmt::format(
          "\"{}\" has {} elements, expected {}", name, found->second.size(), values.size());
    }
    const double bound = 1e-5 * largest(values) + 1e-8 * of_all;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::abs(found->second[i] - values[i]) <= bound) continue;
      return fmt::format("\"{}\" element {} is {:.9g}, expected {:.9g} within {:.2g}",
                         name,
                         i,
                         found->second[i],
                         values[i],
                         bound);
    }
  }
  return {};
}

namespace {

// Trains on one rank, once a process.
const Training& trained(const Sets& sets, int steps) {
  static std::map<std::pair<Sets, int>, Training> runs;
  const auto key = std::pair(sets, steps);
  if (!runs.contains(key)) runs[key] = train(tiny_config(), sets, {.steps = steps});
  return runs[key];
}

}  // namespace

const Training& one_rank(int steps, const Sets& model) { return trained(model, steps); }

Findings check_invariant(const PluginHost& host, const Sets& sets, const Sets& model) {
  const Training& single = one_rank(kTableSteps, model);
  const Training& exact = trained(with(model, in_double()), 1);
  const Training& exact_descent = trained(with(with(model, in_double()), plain_descent()), 1);
  const Sets layout = with(model, sets);
  const Training run = train(tiny_config(), layout, {.steps = kTableSteps, .host = &host});
  const Training descent = train(tiny_config(), with(layout, plain_descent()), {.host = &host});
  return {difference(run.losses, single.losses, kLossTolerance, "loss"),
          difference(run.norms, single.norms, kNormTolerance, "gradient norm"),
          difference(run.gradients, exact.gradients),
          difference(descent.parameters, exact_descent.parameters)};
}

}  // namespace tessera::testing

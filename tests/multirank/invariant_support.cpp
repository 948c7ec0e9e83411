#include "invariant_support.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

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

double rms(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum / static_cast<double>(a.size()));
}

namespace {

// Trains on one rank, once a process.
const Training& trained(const Sets& sets, int steps) {
  static std::map<std::pair<Sets, int>, Training> runs;
  const auto key = std::pair(sets, steps);
  if (!runs.contains(key)) runs[key] = train(tiny_config(), sets, {.steps = steps});
  return runs[key];
}

// Is `got` at most `times` as far from `want` as `near` is from `exact`? In words where it is not.
struct Distance {
  const std::vector<double>& want;
  const std::vector<double>& near;
  const std::vector<double>& exact;
  double times;
};
std::string farther(const std::vector<double>& got, const Distance& than, const std::string& what) {
  if (got.size() != than.want.size() || than.near.size() != than.exact.size()) {
    return fmt::format("{} values of {}, expected {}", got.size(), what, than.want.size());
  }
  const double apart = rms(got, than.want), distance = rms(than.near, than.exact);
  if (apart <= than.times * distance) return {};
  return fmt::format(
      "{} differ by {:.3g} (rms), more than {} times {:.3g}", what, apart, than.times, distance);
}

// A layout may be twice as far from one rank of the same compute as that is from what is exact.
std::string farther(const std::vector<double>& got,
                    const std::vector<double>& near,
                    const std::vector<double>& exact,
                    const std::string& what) {
  return farther(got, {near, near, exact, 2}, what);
}

std::string farther(const Tensors& got, const Tensors& near, const Tensors& exact) {
  for (const auto& [name, values] : near) {
    const auto found = got.find(name);
    if (found == got.end()) return fmt::format("\"{}\" is missing", name);
    const std::string text = farther(found->second, values, exact.at(name), name);
    if (!text.empty()) return text;
  }
  return {};
}

// Is `got` at most three times as far from `exact` as `near` is?
std::string farther_from(const Tensors& exact, const Tensors& got, const Tensors& near) {
  for (const auto& [name, values] : exact) {
    const auto found = got.find(name);
    if (found == got.end()) return fmt::format("\"{}\" is missing", name);
    const std::string text = farther(found->second, {values, near.at(name), values, 3}, name);
    if (!text.empty()) return text;
  }
  return {};
}

Tensors scaled(Tensors tensors, double factor) {
  for (auto& [name, values] : tensors) {
    for (double& value : values) value *= factor;
  }
  return tensors;
}

std::string first_differs(const std::vector<double>& got,
                          const std::vector<double>& want,
                          double tolerance,
                          std::string_view what) {
  return difference({got.at(0)}, {want.at(0)}, tolerance, what);
}

// A fixed loss scale that overflows nowhere, so that all steps are taken.
constexpr double kFixedScale = 1024;

// The first text that says something.
std::string first_of(std::initializer_list<std::string> texts) {
  for (const std::string& text : texts) {
    if (!text.empty()) return text;
  }
  return {};
}

}  // namespace

Sets in_16_bits(const Narrow& narrow) {
  Sets sets = {fmt::format("precision.compute=\"{}\"", narrow.compute),
               fmt::format("device.type=\"{}\"", narrow.device)};
  if (narrow.compute == "fp16") {
    sets.push_back(fmt::format("precision.loss_scale={}", kFixedScale));
  }
  return sets;
}

const Training& one_rank(int steps, const Sets& model) { return trained(model, steps); }

Findings check_narrow(const PluginHost& host,
                      const Narrow& narrow,
                      const Sets& sets,
                      Rounding rounding,
                      const Sets& model) {
  const Sets in = with(model, in_16_bits(narrow)), layout = with(in, sets);
  const Training& wide = one_rank(kTableSteps, model);
  const Training& single = trained(in, kTableSteps);
  const Training& single_descent = trained(with(in, plain_descent()), 1);
  const Training run = train(tiny_config(), layout, {.steps = kTableSteps, .host = &host});
  const Training descent = train(tiny_config(), with(layout, plain_descent()), {.host = &host});
  const double unscale = narrow.compute == "fp16" ? 1 / kFixedScale : 1;
  const Tensors gradients = scaled(run.gradients, unscale);
  const Tensors single_gradients = scaled(single.gradients, unscale);
  Findings found;
  found.losses = farther(run.losses, single.losses, wide.losses, "losses");
  found.norms = farther(run.norms, single.norms, wide.norms, "norms");
  if (rounding == Rounding::same) {
    found.losses =
        first_of({found.losses, first_differs(run.losses, single.losses, kLossTolerance, "loss")});
    found.norms =
        first_of({found.norms, first_differs(run.norms, single.norms, kNormTolerance, "norm")});
    found.gradients = difference(gradients, single_gradients);
    found.update = difference(descent.parameters, single_descent.parameters);
  } else {
    const Training& exact = trained(with(model, in_double()), 1);
    const Training& exact_descent = trained(with(with(model, in_double()), plain_descent()), 1);
    found.gradients = farther(gradients, single_gradients, exact.gradients);
    found.update = farther(descent.parameters, single_descent.parameters, exact_descent.parameters);
  }
  return found;
}

Findings check_narrow_gradients(const PluginHost& host, const Narrow& in, const Sets& sets) {
  const Sets layout = with(with(in_16_bits(in), {"parallel.gradient_dtype=\"bf16\""}), sets);
  const Sets bf16 = in_16_bits({"bf16"});
  const Training& wide = one_rank(kTableSteps);
  const Training& narrow = trained(bf16, kTableSteps);
  const Training& exact = trained(in_double(), 1);
  const Training& exact_descent = trained(with(in_double(), plain_descent()), 1);
  const Training& narrow_descent = trained(with(bf16, plain_descent()), 1);
  const Training run = train(tiny_config(), layout, {.steps = kTableSteps, .host = &host});
  const Training descent = train(tiny_config(), with(layout, plain_descent()), {.host = &host});
  const Tensors gradients = scaled(run.gradients, in.compute == "fp16" ? 1 / kFixedScale : 1);
  return {farther(run.losses, {wide.losses, narrow.losses, wide.losses, 3}, "losses"),
          farther(run.norms, {wide.norms, narrow.norms, wide.norms, 3}, "norms"),
          farther_from(exact.gradients, gradients, narrow.gradients),
          farther_from(exact_descent.parameters, descent.parameters, narrow_descent.parameters)};
}

std::string check_loss_scale(const PluginHost& host,
                             const std::string& device,
                             const Sets& sets,
                             const Sets& model) {
  const Sets in = with({"precision.compute=\"fp16\"",
                        "precision.loss_scale_start=16777216",
                        "precision.loss_scale_window=4",
                        fmt::format("device.type=\"{}\"", device)},
                       model);
  const Training& wide = one_rank(kTableSteps, model);
  const Training& fixed = trained(with(model, in_16_bits({"fp16", device})), kTableSteps);
  const Training& single = trained(in, kTableSteps);
  const Training run = train(tiny_config(), with(in, sets), {.steps = kTableSteps, .host = &host});
  const double bound = 2 * rms(fixed.losses, wide.losses);
  const double apart = rms(run.losses, single.losses);
  return first_of(
      {difference(run.updates, single.updates, 0, "the count of updates"),
       difference(run.loss_scales, single.loss_scales, 0, "the loss scale"),
       apart <= bound
           ? std::string()
           : fmt::format("losses differ by {:.3g} (rms), more than {:.3g}", apart, bound)});
}

std::string text(const Findings& found) {
  return fmt::format("losses: {}\nnorms: {}\ngradients: {}\nupdate: {}",
                     found.losses,
                     found.norms,
                     found.gradients,
                     found.update);
}

Findings check_invariant(const PluginHost& host,
                         const Sets& sets,
                         const Sets& model,
                         bool two_hosts) {
  const Training& single = one_rank(kTableSteps, model);
  const Training& exact = trained(with(model, in_double()), 1);
  const Training& exact_descent = trained(with(with(model, in_double()), plain_descent()), 1);
  const Sets layout = with(model, sets);
  const Training run =
      train(tiny_config(), layout, {.steps = kTableSteps, .two_hosts = two_hosts, .host = &host});
  const Training descent =
      train(tiny_config(), with(layout, plain_descent()), {.two_hosts = two_hosts, .host = &host});
  return {difference(run.losses, single.losses, kLossTolerance, "loss"),
          difference(run.norms, single.norms, kNormTolerance, "gradient norm"),
          difference(run.gradients, exact.gradients),
          difference(descent.parameters, exact_descent.parameters)};
}

}  // namespace tessera::testing

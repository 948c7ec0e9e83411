#include "lr_schedules.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tessera/bounds.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

template <class Config>
void describe_rise(Schema<Config>& s) {
  s.field("peak", &Config::peak, "highest learning rate")
      .required()
      .above(0)
      .megatron("--lr")
      .also("learning_rate");
  s.field("warmup_steps",
          &Config::warmup_steps,
          "updates over which the rate rises linearly from 0 to peak")
      .at_least(0)
      .at_most(kMostSteps)
      .megatron("--lr-warmup-iters")
      .also("warmup_iters");
  s.field("warmup_share",
          &Config::warmup_share,
          "the same as a share of the updates up to the end of the decay, rounded; in the place of "
          "warmup_steps")
      .at_least(0)
      .below(1)
      .megatron("--lr-warmup-fraction")
      .also("warmup_ratio");
}

// With warmup_steps in the place of warmup_share.
template <class Config>
Config in_steps(Config config, i64 updates) {
  if (config.warmup_share == 0) return config;
  if (config.warmup_steps > 0) {
    fail_config("lr.warmup_steps = {} and lr.warmup_share = {} say the same: give one of them",
                config.warmup_steps,
                config.warmup_share);
  }
  config.warmup_steps = std::llround(config.warmup_share * static_cast<double>(updates));
  return config;
}

template <class Config>
void describe_decay(Schema<Config>& s, const char* min, const char* decay_steps) {
  describe_rise(s);
  s.field("min", &Config::min, min).at_least(0).megatron("--min-lr");
  s.field("decay_steps", &Config::decay_steps, decay_steps)
      .from("run.steps")
      .at_least(1)
      .at_most(kMostSteps)
      .megatron("--lr-decay-iters");
}

constexpr const char *kMin = "learning rate at the end of the decay and after it",
                     *kDecaySteps =
                         "update, counted from the start of the run, at which min is reached; "
                         "auto: the last one";

double risen(double peak, i64 step, i64 warmup) {
  return peak * static_cast<double>(step) / static_cast<double>(warmup);
}

// How much of a way down is left after the part x of it, 0 … 1.
double linear(double x) { return 1 - x; }
double cosine(double x) { return 0.5 * (std::cos(std::numbers::pi * x) + 1); }
double exponential(double x) { return 2 * std::pow(0.5, x) - 1; }
double minus_sqrt(double x) { return 1 - std::sqrt(x); }

struct Tail {
  const char* name;
  double (*left)(double x);
};
constexpr Tail kTails[] = {{"linear", linear},
                           {"cosine", cosine},
                           {"exponential", exponential},
                           {"minus_sqrt", minus_sqrt}};

}  // namespace

void LrConfig::describe(Schema<LrConfig>& s) { describe_decay(s, kMin, kDecaySteps); }

void InverseSqrtLr::Config::describe(Schema<Config>& s) {
  describe_decay(s,
                 "the learning rate does not fall below this, and is this after decay_steps",
                 "last update, counted from the start of the run, of the decay; auto: the last "
                 "one");
}

void WsdLr::Config::describe(Schema<Config>& s) {
  describe_decay(s, kMin, kDecaySteps);
  s.field("tail_steps", &Config::tail_steps, "updates of the way down; it ends at decay_steps")
      .required()
      .at_least(1)
      .at_most(kMostSteps)
      .megatron("--lr-wsd-decay-iters")
      .also("--lr-wsd-decay-samples", "is {} here, in steps");
  std::vector<std::string> names;
  for (const Tail& tail : kTails) names.emplace_back(tail.name);
  s.field("tail",
          &Config::tail,
          "what is left of peak - min after the part x of the way down: linear 1 - x; cosine "
          "(1 + cos(pi x)) / 2; exponential 2 · 0.5^x - 1; minus_sqrt 1 - sqrt(x)")
      .one_of(names)
      .megatron("--lr-wsd-decay-style");
}

void ConstantLr::Config::describe(Schema<Config>& s) { describe_rise(s); }

DecayingLr::DecayingLr(const LrConfig& config, const LrArguments& arguments)
    : config_(in_steps(config, config.decay_steps.value_or(arguments.steps))),
      decay_steps_(config.decay_steps.value_or(arguments.steps)),
      only_rises_(decay_steps_ == arguments.steps && config_.warmup_steps >= decay_steps_) {
  if (config.min > config.peak) {
    fail_config("lr.min = {} is above lr.peak = {}", config.min, config.peak);
  }
  // A run that is cut short only warms up; a given end before the warm-up is a contradiction.
  if (decay_steps_ != arguments.steps && config_.warmup_steps > decay_steps_) {
    fail_config("lr.warmup_steps = {} is beyond the end of the decay at step {} (lr.decay_steps)",
                config_.warmup_steps,
                decay_steps_);
  }
}

double DecayingLr::do_rate(i64 step) const {
  if (step <= config_.warmup_steps) return risen(config_.peak, step, config_.warmup_steps);
  if (step > decay_steps_) return config_.min;
  return on_the_way(step);
}

double DecayingLr::part_since(i64 start, i64 step) const {
  return static_cast<double>(step - start) / static_cast<double>(decay_steps_ - start);
}

double LinearLr::on_the_way(i64 step) const {
  return with_left(linear(part_since(config().warmup_steps, step)));
}

double CosineLr::on_the_way(i64 step) const {
  return with_left(cosine(part_since(config().warmup_steps, step)));
}

InverseSqrtLr::InverseSqrtLr(const Config& config, LrArguments& arguments)
    : DecayingLr(config, arguments) {}

// Without a rise, the first update has the peak.
double InverseSqrtLr::on_the_way(i64 step) const {
  const auto rise = static_cast<double>(std::max<i64>(config().warmup_steps, 1));
  return std::max(config().min,
                  config().peak * std::sqrt(rise) / std::sqrt(static_cast<double>(step)));
}

WsdLr::WsdLr(const Config& config, LrArguments& arguments)
    : DecayingLr(config, arguments),
      left_(std::ranges::find(kTails, config.tail, &Tail::name)->left),
      tail_start_(decay_steps() - config.tail_steps) {
  const i64 rise = this->config().warmup_steps;
  if (only_rises() || rise <= tail_start_) return;
  fail_config(
      "lr.warmup_steps = {} and lr.tail_steps = {} are more than the {} updates up to the end of "
      "the decay (lr.decay_steps)",
      rise,
      config.tail_steps,
      decay_steps());
}

double WsdLr::on_the_way(i64 step) const {
  return step <= tail_start_ ? config().peak : with_left(left_(part_since(tail_start_, step)));
}

ConstantLr::ConstantLr(const Config& config, LrArguments& arguments)
    : config_(in_steps(config, arguments.steps)) {}

double ConstantLr::do_rate(i64 step) const {
  if (step <= config_.warmup_steps) return risen(config_.peak, step, config_.warmup_steps);
  return config_.peak;
}

}  // namespace tessera

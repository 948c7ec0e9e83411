#include "lr_schedules.hpp"

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
      .also("warmup_iters")
      .also("--lr-warmup-fraction", "is {} here, in steps");
}

double risen(double peak, i64 step, i64 warmup) {
  return peak * static_cast<double>(step) / static_cast<double>(warmup);
}

}  // namespace

void LrConfig::describe(Schema<LrConfig>& s) {
  describe_rise(s);
  s.field("min", &LrConfig::min, "learning rate at the end of the decay and after it")
      .at_least(0)
      .megatron("--min-lr");
  s.field("decay_steps",
          &LrConfig::decay_steps,
          "update, counted from the start of the run, at which min is reached; auto: the last one")
      .from("run.steps")
      .at_least(1)
      .at_most(kMostSteps)
      .megatron("--lr-decay-iters");
}

void ConstantLr::Config::describe(Schema<Config>& s) { describe_rise(s); }

DecayingLr::DecayingLr(const Config& config, const LrArguments& arguments)
    : config_(config), decay_steps_(config.decay_steps.value_or(arguments.steps)) {
  if (config.min > config.peak) {
    fail_config("lr.min = {} is above lr.peak = {}", config.min, config.peak);
  }
  // A run that is cut short only warms up; a given end before the warm-up is a contradiction.
  if (decay_steps_ != arguments.steps && config.warmup_steps > decay_steps_) {
    fail_config("lr.warmup_steps = {} is beyond the end of the decay at step {} (lr.decay_steps)",
                config.warmup_steps,
                decay_steps_);
  }
}

double DecayingLr::do_rate(i64 step) const {
  if (step <= config_.warmup_steps) return risen(config_.peak, step, config_.warmup_steps);
  if (step > decay_steps_) return config_.min;
  const double x = static_cast<double>(step - config_.warmup_steps) /
                   static_cast<double>(decay_steps_ - config_.warmup_steps);
  return config_.min + (config_.peak - config_.min) * left(x);
}

double CosineLr::left(double x) const { return 0.5 * (std::cos(std::numbers::pi * x) + 1); }

double ConstantLr::do_rate(i64 step) const {
  if (step <= config_.warmup_steps) return risen(config_.peak, step, config_.warmup_steps);
  return config_.peak;
}

}  // namespace tessera

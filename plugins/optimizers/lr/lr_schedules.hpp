#pragma once
#include "tessera/optimizer.hpp"

namespace tessera {

/// Learning rates of update n = 1, 2, …: a linear rise from 0 to `peak` over warmup_steps, then a
/// way down to `min` that ends at decay_steps; `min` from there on.
struct LrConfig {
  double peak = 0, min = 0;
  i64 warmup_steps = 0;
  Auto<i64> decay_steps;
  static void describe(Schema<LrConfig>& s);
};

/// What linear and cosine share; they differ in the way down.
class DecayingLr : public LrSchedule {
 public:
  using Config = LrConfig;
  DecayingLr(const Config& config, const LrArguments& arguments);
  double do_rate(i64 step) const final;

 protected:
  /// How much of peak - min is left after the part `x` of the way, 0 … 1: from 1 to 0.
  virtual double left(double x) const = 0;

 private:
  Config config_;
  i64 decay_steps_;
};

class LinearLr final : public DecayingLr {
 public:
  LinearLr(const Config& config, LrArguments& arguments) : DecayingLr(config, arguments) {}

 private:
  double left(double x) const override { return 1 - x; }
};

class CosineLr final : public DecayingLr {
 public:
  CosineLr(const Config& config, LrArguments& arguments) : DecayingLr(config, arguments) {}

 private:
  double left(double x) const override;
};

/// The rise alone, then `peak` to the end.
class ConstantLr final : public LrSchedule {
 public:
  struct Config {
    double peak = 0;
    i64 warmup_steps = 0;
    static void describe(Schema<Config>& s);
  };
  ConstantLr(const Config& config, LrArguments&) : config_(config) {}
  double do_rate(i64 step) const override;

 private:
  Config config_;
};

}  // namespace tessera

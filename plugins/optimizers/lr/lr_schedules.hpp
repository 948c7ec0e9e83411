#pragma once
#include <string>

#include "tessera/optimizer.hpp"

namespace tessera {

/// Learning rates of update n = 1, 2, …: a linear rise from 0 to `peak` over warmup_steps, then a
/// way down that ends at decay_steps; `min` from there on.
struct LrConfig {
  double peak = 0, min = 0;
  i64 warmup_steps = 0;
  double warmup_share = 0;
  Auto<i64> decay_steps;
  static void describe(Schema<LrConfig>& s);
};

/// What rates with a way down share; they differ in the way.
class DecayingLr : public LrSchedule {
 public:
  DecayingLr(const LrConfig& config, const LrArguments& arguments);
  double do_rate(i64 step) const final;

 protected:
  const LrConfig& config() const { return config_; }
  i64 decay_steps() const { return decay_steps_; }
  /// Is the run cut short before the rise ends? Nothing else is asked of it then.
  bool only_rises() const { return only_rises_; }
  /// The part of the way from update `start` to decay_steps that update `step` has gone, 0 … 1.
  double part_since(i64 start, i64 step) const;
  /// The rate where this much of peak - min is left.
  double with_left(double left) const { return config_.min + (config_.peak - config_.min) * left; }

 private:
  /// Of an update after the rise, at most decay_steps.
  virtual double on_the_way(i64 step) const = 0;

  LrConfig config_;
  i64 decay_steps_;
  bool only_rises_;
};

class LinearLr final : public DecayingLr {
 public:
  using Config = LrConfig;
  LinearLr(const Config& config, LrArguments& arguments) : DecayingLr(config, arguments) {}

 private:
  double on_the_way(i64 step) const override;
};

class CosineLr final : public DecayingLr {
 public:
  using Config = LrConfig;
  CosineLr(const Config& config, LrArguments& arguments) : DecayingLr(config, arguments) {}

 private:
  double on_the_way(i64 step) const override;
};

/// Falls as 1/√n (Vaswani et al. 2017, §5.3), from peak at the end of the rise; never below min.
class InverseSqrtLr final : public DecayingLr {
 public:
  struct Config : LrConfig {
    static void describe(Schema<Config>& s);
  };
  InverseSqrtLr(const Config& config, LrArguments& arguments);

 private:
  double on_the_way(i64 step) const override;
};

/// Rise, peak, and a way down in the last tail_steps (Hu et al. 2024, "MiniCPM", §4).
class WsdLr final : public DecayingLr {
 public:
  struct Config : LrConfig {
    i64 tail_steps = 0;
    std::string tail = "exponential";
    static void describe(Schema<Config>& s);
  };
  WsdLr(const Config& config, LrArguments& arguments);

 private:
  double on_the_way(i64 step) const override;

  double (*left_)(double x);  ///< from 1 to 0
  i64 tail_start_;            ///< the last update at peak
};

/// The rise alone, then `peak` to the end.
class ConstantLr final : public LrSchedule {
 public:
  struct Config {
    double peak = 0;
    i64 warmup_steps = 0;
    double warmup_share = 0;
    static void describe(Schema<Config>& s);
  };
  ConstantLr(const Config& config, LrArguments& arguments);
  double do_rate(i64 step) const override;

 private:
  Config config_;
};

}  // namespace tessera

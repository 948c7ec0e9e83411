#include "precision_mutants_support.hpp"

#include <array>
#include <bit>
#include <cmath>

#include "mutants_support.hpp"
#include "sdk/src/autograd/linear_parts.hpp"
#include "tessera/build.hpp"
#include "tessera/ops.hpp"

namespace tessera::testing {

namespace {

double in_bf16(double value) {
  const u32 bits = std::bit_cast<u32>(static_cast<float>(value));
  return std::bit_cast<float>((bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000U);
}

std::vector<float> read_wide(Context& cx, const Tensor& x) {
  const Tensor wide = cx.empty(x.shape(), DType::fp32);
  CopyArgs widen{x.arg(), wide.arg()};
  ops::run(cx, widen);
  std::vector<float> values(static_cast<std::size_t>(x.elements()));
  cx.device->read(wide, values.data());
  return values;
}

// A norm of which every intermediate value is bf16: y, mean and rstd anew.
void norm_in_bf16(Context& cx,
                  const LayerNormArgs& args,
                  const Tensor& x,
                  const std::array<Tensor, 3>& made,
                  const Parameter& weight,
                  const Parameter& bias) {
  const i64 rows = x.dim(0), features = x.dim(1);
  const auto count = static_cast<double>(features);
  const std::vector<float> w = read_wide(cx, weight.compute), b = read_wide(cx, bias.compute);
  std::vector<float> values = read_wide(cx, x), means, rstds;
  for (i64 i = 0; i < rows; ++i) {
    float* row = values.data() + i * features;
    double sum = 0, squares = 0;
    for (i64 j = 0; j < features; ++j) sum = in_bf16(sum + row[j]);
    const double mean = in_bf16(sum / count);
    for (i64 j = 0; j < features; ++j) {
      const double centred = in_bf16(row[j] - mean);
      squares = in_bf16(squares + in_bf16(centred * centred));
    }
    const double rstd = in_bf16(1 / std::sqrt(in_bf16(squares / count) + args.eps));
    for (i64 j = 0; j < features; ++j) {
      const auto at = static_cast<std::size_t>(j);
      const double normal = in_bf16(in_bf16(row[j] - mean) * rstd);
      row[j] = static_cast<float>(in_bf16(normal * w[at]) + b[at]);
    }
    means.push_back(static_cast<float>(mean));
    rstds.push_back(static_cast<float>(rstd));
  }
  const Tensor wide = cx.empty(x.shape(), DType::fp32);
  cx.device->write(wide, values.data());
  CopyArgs round{wide.arg(), made[0].arg()};
  ops::run(cx, round);
  cx.device->write(made[1], means.data());
  cx.device->write(made[2], rstds.data());
}

class MutantNarrowNorm final : public Module {
 public:
  struct Config {
    i64 hidden = 0;
    std::string mistake = "none";
    static void describe(Schema<Config>& s) {
      s.field("hidden", &Config::hidden, "features").from("model.hidden");
      describe_mistake(s, {"in_bf16"});
    }
  };
  MutantNarrowNorm(const Config& config, BuildContext& build) : narrow_(config.mistake != "none") {
    const Placement placement = build.tensor_region().per_row();
    weight_ = &build.parameter({.name = "weight",
                                .shape = {config.hidden},
                                .init = Init::ones(),
                                .tags = {"norm"},
                                .placement = placement});
    bias_ = &build.parameter({.name = "bias",
                              .shape = {config.hidden},
                              .tags = {"norm", "bias"},
                              .placement = placement});
  }

  Tensor do_forward(Context& cx, const Tensor& x) const override {
    LayerNormArgs args;
    args.x = x.arg();
    args.weight = weight_->compute.arg();
    args.bias = bias_->compute.arg();
    const auto made = ops::run(cx, args);
    Tensor y = made[0];
    if (narrow_) norm_in_bf16(cx, args, x, made, *weight_, *bias_);
    if (!cx.recording()) return y;
    const auto input_half = [this, x = x.with_var({}), made](Context& c, Gradients& g) {
      LayerNormBackwardArgs back;
      back.grad = g.output(0).arg();
      back.x = x.arg();
      back.weight = weight_->compute.arg();
      back.mean = made[1].arg();
      back.rstd = made[2].arg();
      const Tensor sum = g.take_sum(0);
      if (!sum.defined()) {
        g.input(0, ops::run(c, back)[0]);
        return;
      }
      // Adds what the residual connection contributes, as ops::layernorm does: rounded once.
      LayerNormBackwardAddArgs add{
          back.grad, back.x, back.weight, back.mean, back.rstd, sum.arg(), {}};
      g.input(0, ops::run(c, add)[0]);
    };
    const auto weight_half = [this, x = x.with_var({}), made](Context& c, Gradients& g) {
      LayerNormWeightArgs back;
      back.grad = g.output(0).arg();
      back.x = x.arg();
      back.mean = made[1].arg();
      back.rstd = made[2].arg();
      back.weight_grad = weight_->grad.arg();
      back.bias_grad = bias_->grad.arg();
      ops::run(c, back);
    };
    cx.tape->record("layernorm", std::array{x}, std::array{&y}, input_half, weight_half);
    return y;
  }

 private:
  bool narrow_;
  Parameter *weight_, *bias_;
};

// Its main gradient is rounded to bf16 after each microbatch.
class MutantNarrowColumnLinear final : public Module {
 public:
  struct Config {
    i64 in = 0, out = 0;
    std::vector<i64> sections;
    double init_std = 0.02;
    std::string mistake = "none";
    static void describe(Schema<Config>& s) {
      s.field("in", &Config::in, "input features").given();
      s.field("out", &Config::out, "output features").given();
      s.field("sections", &Config::sections, "fused outputs").given();
      s.field("init_std", &Config::init_std, "initial weights").from("model.init_std");
      describe_mistake(s, {"bf16_gradient"});
    }
  };
  MutantNarrowColumnLinear(const Config& config, BuildContext& build)
      : rounds_(config.mistake != "none"), region_(build.tensor_region()) {
    const Split split{0, Axis::tensor, config.sections};
    weight_ = &build.parameter({.name = "weight",
                                .shape = {config.out, config.in},
                                .split = {split},
                                .init = Init::gaussian(config.init_std)});
    bias_ = &build.parameter(
        {.name = "bias", .shape = {config.out}, .split = {split}, .tags = {"bias"}});
  }

  Tensor do_forward(Context& cx, const Tensor& x) const override {
    const Tensor entered = region_.enter(cx, x);
    Tensor y = linear_parts::forward(cx, entered, *weight_, bias_);
    if (!cx.recording()) return y;
    const auto input_half = [this](Context& c, Gradients& g) {
      g.input(0, linear_parts::input_gradient(c, g.output(0), *weight_));
    };
    const auto weight_half = [this, kept = entered.with_var({})](Context& c, Gradients& g) {
      linear_parts::add_weight_gradient(c, g.output(0), kept, *weight_, bias_);
      if (!rounds_) return;
      const Tensor narrow = c.empty(weight_->grad.shape(), DType::bf16);
      CopyArgs there{weight_->grad.arg(), narrow.arg()}, back{narrow.arg(), weight_->grad.arg()};
      ops::run(c, there);
      ops::run(c, back);
    };
    cx.tape->record("linear", std::array{entered}, std::array{&y}, input_half, weight_half);
    return y;
  }

 private:
  bool rounds_;
  TensorRegion region_;
  Parameter *weight_, *bias_;
};

// Works as `replicated` without groups. With the mistake each rank looks at its own gradients only
// when it decides whether to skip.
class MutantScalingOptimizer final : public Optimizer {
 public:
  struct Config {
    double clip = 0;
    std::string mistake = "none";
    Component<UpdateRule> rule{"adamw", {}};
    static void describe(Schema<Config>& s) {
      s.field("clip", &Config::clip, "bound of the norm");
      s.slot("rule", &Config::rule, "update");
      describe_mistake(s, {"own_overflow"});
    }
  };
  MutantScalingOptimizer(const Config& config, OptimizerArguments& arguments)
      : config_(config),
        rule_(arguments.make_rule(config.rule)),
        shards_(shards_without_groups(arguments, *rule_)) {}

  void do_sum_squares(Context& cx, const Tensor& out) override {
    for (std::size_t i = 0; i < shards_.list.size(); ++i) {
      if (!shards_.list[i].parameter->layout.counted()) continue;
      SumSquaresArgs args{shards_.grad_of(i).arg(), {}, out.slice(0, 0, 1).arg()};
      ops::run(cx, args);
    }
    if (config_.mistake == "none") return;
    double own = 0;
    cx.device->read(out.slice(0, 0, 1), &own);
    overflow_ = !std::isfinite(own);
  }
  void do_step(Context& cx, const Tensor& scalars) override {
    if (config_.mistake == "none") return rule_->update(cx, shards_, scalars);
    std::vector<double> values(step_scalar::kCount);
    cx.device->read(scalars, values.data());
    if (values[step_scalar::kFoundInf] != 0 && !overflow_) {
      values[step_scalar::kFoundInf] = 0;
      values[step_scalar::kGradientScale] = 1 / values[step_scalar::kLossScale];
      values[step_scalar::kSteps] += 1;
    }
    const Tensor own = cx.empty({step_scalar::kCount}, DType::fp64);
    cx.device->write(own, values.data());
    rule_->update(cx, shards_, own);
  }
  double do_clip() const override { return config_.clip; }
  std::vector<NamedState> do_state() override { return {}; }

 private:
  Config config_;
  bool overflow_ = false;
  std::shared_ptr<UpdateRule> rule_;
  Shards shards_;
};

// What the kernel of every CPU device does for a fixed scale, but for the norm.
void scaled_norm(const StepScalarsArgs& args) {
  double* scalars = args.scalars.as<double>();
  const double norm = std::sqrt(*args.sum_squares.as<const double>());
  const double clip = args.clip > 0 ? std::min(1.0, args.clip / (norm + 1e-6)) : 1.0;
  scalars[step_scalar::kNorm] = norm;
  scalars[step_scalar::kGradientScale] = clip / scalars[step_scalar::kLossScale];
  scalars[step_scalar::kSteps] += 1;
  const i64 place = (static_cast<i64>(scalars[step_scalar::kSteps]) - 1) % args.rates.shape[0];
  scalars[step_scalar::kLearningRate] = args.rates.as<const double>()[place];
}

}  // namespace

void register_precision_mutants(Registrar& registrar) {
  registrar.add<Module, MutantNarrowNorm>("mutant_narrow_norm", "norm");
  registrar.add<Module, MutantNarrowColumnLinear>("mutant_narrow_column_linear", "column linear");
  registrar.add<Optimizer, MutantScalingOptimizer>("mutant_scaling_optimizer", "optimizer");
}

void register_scaled_norm(Registrar& registrar) {
  registrar.add_kernel("reference", make_kernel<StepScalarsArgs>(&scaled_norm));
}

}  // namespace tessera::testing

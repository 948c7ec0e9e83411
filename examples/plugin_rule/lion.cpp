// An update by the sign of a mixed momentum (Chen et al. 2023, algorithm 2), with an operation of
// its own.
#include <tessera/for_each_shard.hpp>
#include <tessera/ops.hpp>
#include <tessera/optimizer.hpp>
#include <tessera/plugin.hpp>

namespace {

using namespace tessera;

// Everything that changes from step to step is read from `scalars`, on the device.
struct LionArgs {
  static constexpr std::string_view kName = "example.lion";
  static constexpr int kTensors = 6, kOutputs = 3;
  TensorArg scalars, ranges, hyper, grad, main, momentum;
  double beta1 = 0, beta2 = 0;
  static void infer(LionArgs& args) {
    require(args.main.dtype == DType::fp32, "lion: needs precision.main = \"fp32\"");
  }
};

void update_elements(const LionArgs& a) {
  const double* scalars = a.scalars.as<double>();
  const double lr = scalars[step_scalar::kLearningRate];
  const double scale = scalars[step_scalar::kGradientScale];
  const bool skip = scalars[step_scalar::kFoundInf] != 0;
  float *grad = a.grad.as<float>(), *main = a.main.as<float>(), *momentum = a.momentum.as<float>();
  const auto update = [=](i64 begin, i64 end, double lr_scale, double weight_decay) {
    for (i64 i = begin; i < end; ++i) {
      const double g = scale * grad[i], w = main[i], m = momentum[i];
      grad[i] = 0;
      if (skip) continue;
      const double mixed = a.beta1 * m + (1 - a.beta1) * g;
      const double sign = mixed > 0 ? 1 : mixed < 0 ? -1 : 0;
      main[i] = static_cast<float>(w - lr * lr_scale * (sign + weight_decay * w));
      momentum[i] = static_cast<float>(a.beta2 * m + (1 - a.beta2) * g);
    }
  };
  for_each_shard(a.ranges, a.hyper, 1 << 14, update);
}

class Lion final : public UpdateRule {
 public:
  struct Config {
    double beta1 = 0.9, beta2 = 0.99, weight_decay = 0.1;
    static void describe(Schema<Config>& s) {
      s.field("beta1", &Config::beta1, "part of the momentum in an update").at_least(0).below(1);
      s.field("beta2", &Config::beta2, "decay of the momentum").at_least(0).below(1);
      s.field("weight_decay", &Config::weight_decay, "decoupled; not of biases and norms")
          .at_least(0);
    }
  };

  Lion(const Config& config, RuleArguments& arguments)
      : config_(config), operation_(*arguments.device) {}

  std::vector<StateSpec> state() const override { return {{"momentum"}}; }
  double weight_decay() const override { return config_.weight_decay; }

  void update(Context& cx, const Shards& shards, const Tensor& scalars) const override {
    LionArgs args{.scalars = scalars.arg(),
                  .ranges = shards.ranges.arg(),
                  .hyper = shards.hyper.arg(),
                  .grad = shards.grad.arg(),
                  .main = shards.main.arg(),
                  .momentum = shards.state[0].arg(),
                  .beta1 = config_.beta1,
                  .beta2 = config_.beta2};
    ops::run(cx, operation_, args);
    if (!shards.compute.defined()) return;  // it is the same memory
    CopyArgs round{shards.main.arg(), shards.compute.arg()};
    ops::run(cx, round);
  }

 private:
  Config config_;
  Operation<LionArgs> operation_;
};

}  // namespace

TESSERA_PLUGIN(lion, "0.1.0", "An update rule") {
  registrar.add<UpdateRule, Lion>("lion", "sign of a mixed momentum (Chen et al. 2023)");
  registrar.add_kernel("host", make_kernel<LionArgs>(&update_elements));
}

// An update by the sign of the momentum (Bernstein et al. 2018, "signSGD", algorithm 2), with an
// operation of its own.
#include <tessera/for_each_shard.hpp>
#include <tessera/ops.hpp>
#include <tessera/optimizer.hpp>
#include <tessera/plugin.hpp>
#include <tessera/store_compute.hpp>

namespace {

using namespace tessera;

// Everything that changes from step to step is read from `scalars`, on the device.
struct SignumArgs {
  static constexpr std::string_view kName = "example.signum";
  static constexpr int kTensors = 7, kOutputs = 4;
  TensorArg scalars, ranges, hyper, grad, main, momentum, compute;
  double beta = 0;
  static void infer(SignumArgs& args) {
    require(args.main.dtype == DType::fp32, "signum: needs precision.main = \"fp32\"");
  }
};

void update_elements(const SignumArgs& a) {
  const double* scalars = a.scalars.as<double>();
  const double lr = scalars[step_scalar::kLearningRate];
  const double scale = scalars[step_scalar::kGradientScale];
  const bool skip = scalars[step_scalar::kFoundInf] != 0;
  float *grad = a.grad.as<float>(), *main = a.main.as<float>(), *momentum = a.momentum.as<float>();
  const auto update = [=](const ShardRun& run) {
    float *grads = grad + run.grad, *mains = main + run.main, *momenta = momentum + run.state;
    for (i64 i = 0; i < run.length; ++i) {
      const double g = scale * grads[i], w = mains[i], m = momenta[i];
      grads[i] = 0;
      if (skip) continue;
      const double next = a.beta * m + (1 - a.beta) * g;
      const double sign = next > 0 ? 1 : next < 0 ? -1 : 0;
      mains[i] = static_cast<float>(w - lr * run.lr_scale * (sign + run.weight_decay * w));
      momenta[i] = static_cast<float>(next);
    }
    if (!skip) store_compute(a.compute, run, mains);
  };
  for_each_shard(a.ranges, a.hyper, 1 << 14, update);
}

class Signum final : public UpdateRule {
 public:
  struct Config {
    double beta = 0.95, weight_decay = 0.1;
    static void describe(Schema<Config>& s) {
      s.field("beta", &Config::beta, "decay of the momentum").at_least(0).below(1);
      s.field("weight_decay", &Config::weight_decay, "decoupled; not of biases and norms")
          .at_least(0);
    }
  };

  Signum(const Config& config, RuleArguments& arguments)
      : config_(config), operation_(*arguments.device) {}

  std::vector<StateSpec> do_state() const override { return {{"momentum", nullptr, config_.beta}}; }
  double do_weight_decay() const override { return config_.weight_decay; }

  void do_update(Context& cx, const Shards& shards, const Tensor& scalars) const override {
    auto args = update_args<SignumArgs>(shards, scalars);
    args.momentum = shards.state[0].arg();
    args.beta = config_.beta;
    ops::run(cx, operation_, args);
  }

 private:
  Config config_;
  Operation<SignumArgs> operation_;
};

}  // namespace

TESSERA_PLUGIN(signum, "0.1.0", "An update rule") {
  registrar.add<UpdateRule, Signum>("signum", "sign of the momentum (Bernstein et al. 2018)");
  registrar.add_kernel("host", make_kernel<SignumArgs>(&update_elements));
}

#include "lion.hpp"

#include "tessera/for_each_shard.hpp"
#include "tessera/ops.hpp"
#include "tessera/store_compute.hpp"

namespace tessera {

namespace {

constexpr i64 kGrain = 1 << 14;

template <class T, class State>
void update_elements(const LionArgs& a) {
  const double* scalars = a.scalars.as<const double>();
  const double lr = scalars[step_scalar::kLearningRate];
  const double scale = scalars[step_scalar::kGradientScale];
  const bool skip = scalars[step_scalar::kFoundInf] != 0;
  const double beta1 = a.beta1, beta2 = a.beta2;
  T *grad = a.grad.as<T>(), *main = a.main.as<T>();
  State* momentum = a.momentum.as<State>();
  const TensorArg compute = a.compute;
  const auto update = [=](const ShardRun& run) {
    T *grads = grad + run.grad, *mains = main + run.main;
    State* momenta = momentum + run.state;
    for (i64 i = 0; i < run.length; ++i) {
      const double g = scale * static_cast<double>(grads[i]);
      const double w = static_cast<double>(mains[i]), m = static_cast<double>(momenta[i]);
      grads[i] = T{};
      if (skip) continue;
      const double mixed = beta1 * m + (1 - beta1) * g;
      const double sign = mixed > 0 ? 1 : mixed < 0 ? -1 : 0;
      mains[i] = static_cast<T>(w - lr * run.lr_scale * (sign + run.weight_decay * w));
      momenta[i] = static_cast<State>(beta2 * m + (1 - beta2) * g);
    }
    if (!skip) store_compute(compute, run, mains);
  };
  for_each_shard(a.ranges, a.hyper, kGrain, update);
}

void lion(const LionArgs& args) {
  with_floating(args.kName, args.momentum.dtype, [&]<class State>(State) {
    args.main.dtype == DType::fp64 ? update_elements<double, State>(args)
                                   : update_elements<float, State>(args);
  });
}

}  // namespace

void LionArgs::infer(LionArgs& args) {
  require(args.main.dtype == DType::fp32 || args.main.dtype == DType::fp64,
          "lion: needs precision.main = \"fp32\" or \"fp64\"");
  require(args.momentum.dtype != DType::fp16, "lion: the state of an update rule cannot be fp16");
}

Kernel lion_kernel() { return make_kernel<LionArgs>(&lion, kFloatingDTypes); }

void Lion::Config::describe(Schema<Config>& s) {
  s.field("beta1", &Config::beta1, "part of the momentum in an update")
      .at_least(0)
      .below(1)
      .also("--lion-beta1", "is {} here, of type = \"lion\"");
  s.field("beta2", &Config::beta2, "decay of the momentum")
      .at_least(0)
      .below(1)
      .also("--lion-beta2", "is {} here, of type = \"lion\"");
  s.field("weight_decay",
          &Config::weight_decay,
          "part of a weight that decays, times the learning rate; not of biases and norms")
      .at_least(0)
      .megatron("--weight-decay");
}

void Lion::do_update(Context& cx, const Shards& shards, const Tensor& scalars) const {
  auto args = update_args<LionArgs>(shards, scalars);
  args.momentum = shards.state[0].arg();
  args.beta1 = config_.beta1;
  args.beta2 = config_.beta2;
  ops::run(cx, operation_, args);
}

}  // namespace tessera

#include "lion.hpp"

#include "tessera/for_each_shard.hpp"
#include "tessera/ops.hpp"

namespace tessera {

namespace {

constexpr i64 kGrain = 1 << 14;

template <class T>
void update_elements(const LionArgs& a) {
  const double* scalars = a.scalars.as<const double>();
  const double lr = scalars[step_scalar::kLearningRate];
  const double scale = scalars[step_scalar::kGradientScale];
  const bool skip = scalars[step_scalar::kFoundInf] != 0;
  const double beta1 = a.beta1, beta2 = a.beta2;
  T *grad = a.grad.as<T>(), *main = a.main.as<T>(), *momentum = a.momentum.as<T>();
  const auto update = [=](i64 begin, i64 end, double lr_scale, double weight_decay) {
    for (i64 i = begin; i < end; ++i) {
      const double g = scale * static_cast<double>(grad[i]);
      const double w = static_cast<double>(main[i]), m = static_cast<double>(momentum[i]);
      grad[i] = T{};
      if (skip) continue;
      const double mixed = beta1 * m + (1 - beta1) * g;
      const double sign = mixed > 0 ? 1 : mixed < 0 ? -1 : 0;
      main[i] = static_cast<T>(w - lr * lr_scale * (sign + weight_decay * w));
      momentum[i] = static_cast<T>(beta2 * m + (1 - beta2) * g);
    }
  };
  for_each_shard(a.ranges, a.hyper, kGrain, update);
}

void lion(const LionArgs& args) {
  args.main.dtype == DType::fp64 ? update_elements<double>(args) : update_elements<float>(args);
}

}  // namespace

void LionArgs::infer(LionArgs& args) {
  require(args.main.dtype == DType::fp32 || args.main.dtype == DType::fp64,
          "lion: needs precision.main = \"fp32\" or \"fp64\"");
  require(args.grad.elements() == args.main.elements() &&
              args.momentum.elements() == args.main.elements(),
          "lion: gradient and momentum must have the {} elements of main",
          args.main.elements());
}

Kernel lion_kernel() { return make_kernel<LionArgs>(&lion, {DType::fp32, DType::fp64}); }

void Lion::Config::describe(Schema<Config>& s) {
  s.field("beta1", &Config::beta1, "part of the momentum in an update").at_least(0).below(1);
  s.field("beta2", &Config::beta2, "decay of the momentum").at_least(0).below(1);
  s.field("weight_decay",
          &Config::weight_decay,
          "part of a weight that decays, times the learning rate; not of biases and norms")
      .at_least(0)
      .megatron("--weight-decay");
}

void Lion::update(Context& cx, const Shards& shards, const Tensor& scalars) const {
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

}  // namespace tessera

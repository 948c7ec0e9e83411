// An update rule with an operation of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tessera/device/host_device.hpp>
#include <tessera/for_each_shard.hpp>
#include <tessera/ops.hpp>
#include <tessera/optimizer.hpp>
#include <tessera/testing/workbench.hpp>

#include "sdk_support.hpp"

namespace tessera {
namespace lion_rule_test {

/// Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms", algorithm 2.
struct LionArgs {
  static constexpr std::string_view kName = "test.lion";
  static constexpr int kTensors = 7, kOutputs = 4;
  TensorArg scalars, ranges, hyper, grad, main, momentum, compute;
  double beta1 = 0.9, beta2 = 0.99;
  static void infer(LionArgs& args) {
    require(args.grad.elements() == args.main.elements() &&
                args.momentum.elements() == args.main.elements(),
            "lion: gradient and momentum must have the {} elements of the parameter",
            args.main.elements());
  }
};

void lion(const LionArgs& a) {
  const double* scalars = a.scalars.as<double>();
  const double lr = scalars[step_scalar::kLearningRate];
  const double scale = scalars[step_scalar::kGradientScale];
  const bool skip = scalars[step_scalar::kFoundInf] != 0;
  const auto update = [&](const ShardRun& run) {
    for (i64 i = 0; i < run.length; ++i) {
      float& w = a.main.as<float>()[run.main + i];
      float& m = a.momentum.as<float>()[run.state + i];
      float& g = a.grad.as<float>()[run.grad + i];
      if (!skip) {
        const double grad = scale * g, mixed = a.beta1 * m + (1 - a.beta1) * grad;
        const double sign = mixed > 0 ? 1 : mixed < 0 ? -1 : 0;
        w = static_cast<float>(w - lr * run.lr_scale * (sign + run.weight_decay * w));
        m = static_cast<float>(a.beta2 * m + (1 - a.beta2) * grad);
      }
      g = 0;
    }
  };
  for_each_shard(a.ranges, a.hyper, 1 << 14, update);
}

class Lion final : public UpdateRule {
 public:
  struct Config {
    double beta1 = 0.9, beta2 = 0.99, weight_decay = 0.1;
    static void describe(Schema<Config>& s) {
      s.field("beta1", &Config::beta1, "weight of the momentum in the update").at_least(0).below(1);
      s.field("beta2", &Config::beta2, "decay of the momentum").at_least(0).below(1);
      s.field("weight_decay", &Config::weight_decay, "decoupled").at_least(0);
    }
  };
  Lion(const Config& config, RuleArguments& arguments)
      : config_(config), operation_(*arguments.device) {}
  std::vector<StateSpec> do_state() const override { return {{"momentum"}}; }
  double do_weight_decay() const override { return config_.weight_decay; }
  void do_update(Context& cx, const Shards& shards, const Tensor& scalars) const override {
    auto args = update_args<LionArgs>(shards, scalars);
    args.momentum = shards.state[0].arg();
    args.beta1 = config_.beta1;
    args.beta2 = config_.beta2;
    ops::run(cx, operation_, args);
  }

 private:
  Config config_;
  Operation<LionArgs> operation_;
};

void register_lion(Registrar& registrar) {
  registrar.add<UpdateRule, Lion>("lion", "Chen et al. 2023, algorithm 2");
  registrar.add_kernel("host", make_kernel<LionArgs>(&lion));
}

TEST(LionRule, DescribesItself) {
  TestRegistrar registrar;
  register_lion(registrar);
  const auto& fields = registrar.find("rule", "lion").fields;
  ASSERT_EQ(fields.size(), 3U);
  EXPECT_EQ(fields[1].name, "beta2");
  EXPECT_EQ(fields[1].initial, Value(0.99));
  EXPECT_EQ(fields[1].type_text(), "float in [0, 1)");
  const HostDevice device("host_test", {}, registrar.kernels);
  RuleArguments arguments{&device};
  const std::shared_ptr<void> made =
      registrar.find("rule", "lion").make(TestTable({{"weight_decay", 0.5}}), {}, &arguments);
  EXPECT_EQ(static_cast<UpdateRule*>(made.get())->weight_decay(), 0.5);
}

TEST(LionRule, StepsByTheSign) {
  TestRegistrar registrar;
  register_lion(registrar);
  HostDevice device("host_test", {}, registrar.kernels);
  testing::Workbench bench(device);
  RuleArguments arguments{&device};
  const Lion rule({}, arguments);
  Shards shards;
  shards.main = bench.tensor({3}, DType::fp32, {1, 1, 1});
  shards.grad = bench.tensor({3}, DType::fp32, {4, -4, 0});
  shards.list = {{.range = {0, 3}, .hyper = {.weight_decay = 1}}};
  shards.allocate(device, 1);
  testing::write(shards.state[0], {0, 1, 0});
  const Tensor scalars =
      bench.tensor({step_scalar::kCount}, DType::fp64, {1, 0.1, 1, 0, 0, 0.5, 0, 0, 0});
  rule.update(bench.context(), shards, scalars);
  // 0.9 m + 0.1 g/2: 0.2, 0.7, 0; all signs but the last are positive
  const auto w = testing::read(shards.main), m = testing::read(shards.state[0]);
  EXPECT_NEAR(w[0], 0.8, 1e-6);
  EXPECT_NEAR(w[1], 0.8, 1e-6);
  EXPECT_NEAR(w[2], 0.9, 1e-6);
  EXPECT_NEAR(m[0], 0.02, 1e-6);
  EXPECT_NEAR(m[1], 0.97, 1e-6);
  EXPECT_THAT(testing::read(shards.grad), ::testing::Each(0));
}

}  // namespace lion_rule_test
}  // namespace tessera

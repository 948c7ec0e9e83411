#pragma once
#include <vector>

#include "tessera/operation.hpp"
#include "tessera/optimizer.hpp"

namespace tessera {

/// The arguments of AdamWArgs (ops/update.hpp), with the update of Lion.
struct LionArgs {
  static constexpr std::string_view kName = "lion";
  static constexpr int kTensors = 7, kOutputs = 4;
  static constexpr TensorRule kRules[] = {{"scalars", TypeRule::doubles},
                                          {"ranges", TypeRule::integers},
                                          {"hyper", TypeRule::doubles},
                                          {"grad", TypeRule::data},
                                          {"main", TypeRule::data},
                                          {"momentum", TypeRule::floating},
                                          {"compute", TypeRule::floating}};
  TensorArg scalars, ranges, hyper, grad, main, momentum, compute;
  double beta1 = 0, beta2 = 0;
  static void infer(LionArgs& args);
};

/// The operation's kernel for devices whose memory the CPU addresses.
Kernel lion_kernel();
/// The same for the device "cuda"; where TESSERA_HAVE_CUDA.
Kernel lion_gpu_kernel();

/// Lion (Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms", algorithm 2): a step by
/// the sign of a mixed momentum, with half of Adam's state.
class Lion final : public UpdateRule {
 public:
  struct Config {
    double beta1 = 0.9, beta2 = 0.99, weight_decay = 0.1;
    static void describe(Schema<Config>& s);
  };
  Lion(const Config& config, RuleArguments& arguments)
      : config_(config), operation_(*arguments.device) {}

  std::vector<StateSpec> do_state() const override {
    return {{"momentum", nullptr, config_.beta2}};
  }
  double do_weight_decay() const override { return config_.weight_decay; }
  void do_update(Context& cx, const Shards& shards, const Tensor& scalars) const override;

 private:
  Config config_;
  Operation<LionArgs> operation_;
};

}  // namespace tessera

// Learning rates that fall towards the input, for fine-tuning (Howard, Ruder 2018, "ULMFiT", §3.2):
// each layer takes `decay` times the rate of the layer above it. Every rank keeps all state.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <tessera/error.hpp>
#include <tessera/ops.hpp>
#include <tessera/optimizer.hpp>
#include <tessera/plugin.hpp>
#include <tessera/shards.hpp>

namespace {

using namespace tessera;

constexpr std::string_view kBlocks = "layers.";

// Blocks have their number, what comes before them -1, and what comes after them `blocks`.
i64 height_of(std::string_view name, i64 blocks) {
  if (name.starts_with("embedding.")) return -1;
  if (!name.starts_with(kBlocks)) return blocks;
  i64 number = 0;
  std::from_chars(name.data() + kBlocks.size(), name.data() + name.size(), number);
  return number;
}

class Layerwise final : public Optimizer {
 public:
  struct Config {
    Component<UpdateRule> rule{"adamw"};
    double clip = 1, decay = 0.9;
    static void describe(Schema<Config>& s) {
      s.slot("rule", &Config::rule, "how one parameter is updated");
      s.field("clip", &Config::clip, "bound of the norm of all gradients; 0: none").at_least(0);
      s.field("decay", &Config::decay, "learning rate of a layer, by that of the layer above it")
          .above(0)
          .at_most(1);
    }
  };

  Layerwise(const Config& config, OptimizerArguments& arguments)
      : config_(config), rule_(arguments.make_rule(config.rule)), states_(rule_->state()) {
    if (std::ranges::any_of(states_, [](const StateSpec& state) { return state.of != nullptr; })) {
      fail_config("optimizer.rule = \"{}\" has state of some parameters only, layerwise of all",
                  config.rule.type);
    }
    if (rule_->sums() > 0) {
      fail_config(
          "optimizer.rule = \"{}\" needs sums over the model, which layerwise does not make",
          config.rule.type);
    }
    i64 blocks = 0;  // of the whole model, not of this rank
    for (const ParameterName& parameter : arguments.model) {
      if (!parameter.name.starts_with(kBlocks)) continue;
      blocks = std::max(blocks, height_of(parameter.name, 0) + 1);
    }
    const ParameterMemory& memory = *arguments.memory;
    shards_.main = memory.main();
    shards_.compute = memory.compute();
    shards_.grad = memory.gradients();
    shards_.list = own_shards(memory);  // whole parameters: other replicas do the same
    // In model order, so that the sum of squares has one order however memory lies.
    std::vector<Shard> dense, experts;
    for (const Parameter* parameter : arguments.parameters) {
      const auto shard = std::ranges::find(shards_.list, parameter, &Shard::parameter);
      const bool decays = !parameter->has_tag("bias") && !parameter->has_tag("norm");
      const auto below = static_cast<double>(blocks - height_of(parameter->name, blocks));
      shard->hyper.lr_scale = std::pow(config.decay, below);
      shard->hyper.weight_decay = decays ? rule_->weight_decay() : 0;
      if (!parameter->layout.counted()) continue;
      (parameter->layout.expert() ? experts : dense).push_back(*shard);
    }
    shards_.allocate(*arguments.device, *arguments.mesh, states_);
    if (!dense.empty()) dense_ = gradient_ranges(*arguments.device, dense);
    if (!experts.empty()) experts_ = gradient_ranges(*arguments.device, experts);
  }

  double do_clip() const override { return config_.clip; }

  void do_sum_squares(Context& cx, const Tensor& out) override {
    add_squares(cx, dense_, out.slice(0, 0, 1));
    add_squares(cx, experts_, out.slice(0, 1, 1));
  }

  void do_step(Context& cx, const Tensor& scalars) override { rule_->update(cx, shards_, scalars); }

  std::vector<NamedState> do_state() override {
    std::vector<NamedState> all;
    for (std::size_t i = 0; i < shards_.list.size(); ++i) {
      for (std::size_t s = 0; s < states_.size(); ++s) {
        all.push_back(named_state(shards_, i, states_[s], s, StateHolders::every_replica));
      }
    }
    return all;
  }

 private:
  void add_squares(Context& cx, const Tensor& ranges, const Tensor& out) const {
    if (!ranges.defined()) return;  // without ranges the operation would take all
    SumSquaresArgs args{shards_.grad.arg(), ranges.arg(), out.arg()};
    ops::run(cx, args);
  }

  Config config_;
  std::shared_ptr<UpdateRule> rule_;
  std::vector<StateSpec> states_;
  Shards shards_;
  // i64 [n, 2]: ranges of the gradients that this rank counts in the norm; undefined: none.
  Tensor dense_, experts_;
};

}  // namespace

TESSERA_PLUGIN(layerwise, "0.1.0", "An optimizer") {
  registrar.add<Optimizer, Layerwise>("layerwise", "learning rates that fall towards the input");
}

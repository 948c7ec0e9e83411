// Learning rates that fall towards the input, for fine-tuning (Howard, Ruder 2018, "ULMFiT", §3.2):
// each layer takes `decay` times the rate of the layer above it. Every rank keeps all state.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <tessera/counted_squares.hpp>
#include <tessera/error.hpp>
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
      : config_(config),
        rule_(arguments.make_rule(config.rule)),
        states_(rule_->state()),
        // Whole parameters: other replicas do the same.
        shards_(*arguments.memory, own_shards(*arguments.memory)),
        squares_(*arguments.device, arguments.parameters, *arguments.memory) {
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
    for (Shard& shard : shards_.list) {
      const auto below = static_cast<double>(blocks - height_of(shard.parameter->name, blocks));
      shard.hyper = usual_hyper(*shard.parameter, rule_->weight_decay());
      shard.hyper.lr_scale = std::pow(config.decay, below);
    }
    shards_.allocate(*arguments.device, *arguments.mesh, states_);
  }

  double do_clip() const override { return config_.clip; }

  void do_sum_squares(Context& cx, const Tensor& out) override { squares_.add(cx, out); }

  void do_step(Context& cx, const Tensor& scalars) override { rule_->update(cx, shards_, scalars); }

  std::vector<NamedState> do_state() override {
    return named_states(shards_, states_, StateHolders::every_replica);
  }

 private:
  Config config_;
  std::shared_ptr<UpdateRule> rule_;
  std::vector<StateSpec> states_;
  Shards shards_;
  CountedSquares squares_;
};

}  // namespace

TESSERA_PLUGIN(layerwise, "0.1.0", "An optimizer") {
  registrar.add<Optimizer, Layerwise>("layerwise", "learning rates that fall towards the input");
}

#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "parameter_groups.hpp"
#include "tessera/optimizer.hpp"

namespace tessera {

/// Every rank keeps the whole state of its parameters and updates them itself, all in one call of
/// the rule; data-parallel replicas hold equal gradients and so make the same update. Parameters
/// that are cut over another axis than tensor are refused.
class Replicated final : public Optimizer {
 public:
  struct Config {
    Component<UpdateRule> rule{"adamw"};
    double clip = 1;
    std::map<std::string, ParameterGroup> groups;
    static void describe(Schema<Config>& s);
  };
  Replicated(const Config& config, OptimizerArguments& arguments);

  void sum_squares(Context& cx, const Tensor& out) override;
  void step(Context& cx, const Tensor& scalars) override;
  double clip() const override { return config_.clip; }
  std::vector<NamedState> state() override;

 private:
  void check_parameter(const Parameter& parameter) const;

  Config config_;
  const Mesh& mesh_;
  std::shared_ptr<UpdateRule> rule_;
  std::vector<StateSpec> specs_;
  Shards shards_;
  std::vector<std::size_t> model_order_;  ///< index into the shards of each parameter of the model
  Tensor counted_;  ///< i64 [n, 2]: ranges of the gradients that this rank counts in the norm
};

}  // namespace tessera

#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parameter_groups.hpp"
#include "tessera/optimizer.hpp"

namespace tessera {

struct OptimizerConfig {
  Component<UpdateRule> rule{"adamw"};
  double clip = 1;
  std::string state_dtype = "main";
  std::map<std::string, ParameterGroup> groups;
  static void describe(Schema<OptimizerConfig>& s);
};

/// What the optimizers of this plugin have in common: the rule, its state tensors, and each
/// parameter's hyperparameters. Parameters that are cut over an axis other than tensor, expert and
/// expert_tensor are refused.
class GroupedOptimizer : public Optimizer {
 public:
  using Config = OptimizerConfig;
  double clip() const final { return config_.clip; }

 protected:
  /// `type`: of the optimizer, for errors.
  GroupedOptimizer(const Config& config, OptimizerArguments& arguments, std::string_view type);

  const UpdateRule& rule() const { return *rule_; }
  const std::vector<StateSpec>& states() const { return specs_; }
  DType state_dtype() const { return state_dtype_; }
  /// In model order.
  const std::vector<Parameter*>& parameters() const { return parameters_; }
  const Hyper& hyper(const Parameter* parameter) const { return hyper_.at(parameter); }

 private:
  void check_parameter(const Parameter& parameter, const Mesh& mesh, std::string_view type) const;

  Config config_;
  std::shared_ptr<UpdateRule> rule_;
  std::vector<StateSpec> specs_;
  DType state_dtype_;
  std::vector<Parameter*> parameters_;
  std::map<const Parameter*, Hyper> hyper_;
};

}  // namespace tessera

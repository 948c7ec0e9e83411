#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parameter_groups.hpp"
#include "tessera/counted_squares.hpp"
#include "tessera/optimizer.hpp"
#include "tessera/shards.hpp"

namespace tessera {

struct OptimizerConfig {
  Component<UpdateRule> rule{"adamw"};
  double clip = 1;
  std::string state_dtype = "main";
  std::map<std::string, ParameterGroup> groups;
  static void describe(Schema<OptimizerConfig>& s);
};

/// What the optimizers of this plugin have in common: the rule, what it updates here, its state
/// tensors, and each parameter's hyperparameters. Parameters that are cut over an axis other than
/// tensor, expert and expert_tensor are refused.
class GroupedOptimizer : public Optimizer {
 public:
  using Config = OptimizerConfig;
  double do_clip() const final { return config_.clip; }

 protected:
  /// `type`: of the optimizer, for errors.
  GroupedOptimizer(const Config& config,
                   OptimizerArguments& arguments,
                   std::string_view type,
                   StateHolders holders);

  /// The parameters in model order.
  const std::vector<Parameter*>& parameters() const { return parameters_; }
  /// Adds the squares of what this rank counts, which it holds the sums of, as sum_squares does.
  void sum_all_squares(Context& cx, const Tensor& out) const { counted_.add(cx, out); }
  /// Updates what this rank updates, in one call for each set of state tensors.
  void update(Context& cx, const Tensor& scalars) const;
  /// State of every parameter, so that all ranks name the same; a rank may hold nothing of many.
  std::vector<NamedState> all_state() const;

 private:
  void check_parameter(const Parameter& parameter, const Mesh& mesh, std::string_view type) const;
  void require_states_move() const;
  void take_shards(const OptimizerArguments& arguments);
  std::vector<bool> states_of(const Parameter& parameter) const;
  bool counts(const Parameter& parameter) const;
  void add_sums(Context& cx, const Tensor& scalars) const;

  Config config_;
  std::shared_ptr<UpdateRule> rule_;
  std::vector<StateSpec> specs_;
  StateHolders holders_;
  DType state_dtype_;
  const Mesh* mesh_;
  std::vector<Parameter*> parameters_;
  std::map<const Parameter*, Hyper> hyper_;
  std::vector<Shards> shards_;  ///< one for each set of state tensors
  Tensor sums_, uncounted_;     ///< of a rule with sums; what other ranks count
  CountedSquares counted_;
  Tensor nothing_;  ///< [0], state of what this rank does not update
};

}  // namespace tessera

#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "parameter_groups.hpp"
#include "tessera/optimizer.hpp"

namespace tessera {

/// Every rank keeps the whole state of its parameters and updates them itself; data-parallel
/// replicas hold equal gradients and so make the same update. Parameters that are cut over another
/// axis than tensor are refused.
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
  struct Entry {
    Parameter* parameter = nullptr;
    Hyper hyper;
    std::vector<Tensor> state;  ///< of the parameter's local shape
  };
  void check_parameter(const Parameter& parameter) const;
  void check_groups(std::vector<i64> hits, Device* device) const;

  Config config_;
  const Mesh& mesh_;
  std::shared_ptr<UpdateRule> rule_;
  std::vector<StateSpec> specs_;
  std::vector<Entry> entries_;
};

}  // namespace tessera

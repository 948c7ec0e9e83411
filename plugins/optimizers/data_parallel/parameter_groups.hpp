#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tessera/optimizer.hpp"

namespace tessera {

/// Parameters that are trained in a way of their own: `[optimizer.groups.head] match = "head.*"`.
struct ParameterGroup {
  std::string match;
  double lr_scale = 1;
  Auto<double> weight_decay;
  static void describe(Schema<ParameterGroup>& s);
};

/// Throws ConfigError when a group has none of the model's parameters.
void check_groups(std::span<const ParameterName> model,
                  const std::map<std::string, ParameterGroup>& groups);

/// Hyperparameters of each parameter. A parameter in no group gets the rule's weight decay unless
/// it is a bias or belongs to a norm. Throws ConfigError when two groups claim one parameter.
std::vector<Hyper> hyper_of(std::span<Parameter* const> parameters,
                            const std::map<std::string, ParameterGroup>& groups,
                            double weight_decay);

}  // namespace tessera

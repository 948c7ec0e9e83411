#pragma once
#include <string>

#include "invariant_support.hpp"
#include "kernel/planner/report.hpp"
#include "training_support.hpp"

namespace tessera::testing::plans {

inline const std::string kRows = "parallel.sequence_parallel=true";
inline const std::string kDistributed = "optimizer.type=\"distributed\"";
inline const std::string kBf16 = "precision.compute=\"bf16\"";
inline const Sets kPaddedExperts = {"model.block.mlp.type=\"moe\"",
                                    "model.block.mlp.experts=4",
                                    "model.block.mlp.ffn=32",
                                    "model.block.mlp.capacity_factor=1.0",
                                    "model.block.mlp.pad_to_capacity=true"};
inline const Sets kChosen = {"model.block.mlp.type=\"moe\"",
                             "model.block.mlp.experts=4",
                             "model.block.mlp.ffn=32",
                             "model.block.mlp.router.type=\"expert_choice\""};

/// Settings of a model whose blocks are not mere rounding.
inline Sets with_model(const Sets& sets) {
  Sets all = {"device.type=\"cpu\"",
              "check.replicas_every=0",
              "model.layers=4",
              "model.hidden=64",
              "batch.sequence_length=32",
              "model.dropout=0.1"};
  all.insert(all.end(), sets.begin(), sets.end());
  return all;
}

/// What the planner says of that model. `change` may alter what it is asked.
template <class F>
Prediction predicted(const Sets& sets, F&& change) {
  const Resolved config =
      resolve(Config::parse(tiny_config(), "test", with_model(sets)), plugins());
  PlanArguments arguments;
  arguments.config = &config;
  arguments.plugins = &plugins();
  arguments.world = world_size(config.run);
  change(arguments);
  return predict(arguments);
}

inline Prediction predicted(const Sets& sets) {
  return predicted(sets, [](PlanArguments&) {});
}

}  // namespace tessera::testing::plans

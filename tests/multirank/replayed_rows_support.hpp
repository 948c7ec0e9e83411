#pragma once
#include <fmt/format.h>

#include <string_view>

#include "invariant_support.hpp"

/// Settings of rows in which a training has the bits of another way to run it: graphs, whole steps,
/// overlapping passes.
namespace tessera::testing {

inline const Sets kFourStages = {"placement.layout=\"E|t|t|L\""};

inline Sets pipeline(std::string_view schedule, const Sets& more = {}) {
  return with(
      {"parallel.pipeline=2", "batch.micro=1", fmt::format("schedule.type=\"{}\"", schedule)},
      more);
}

inline Sets moe(const Sets& more = {}) {
  return with({"model.block.mlp.type=\"moe\"",
               "model.block.mlp.experts=4",
               "model.block.mlp.ffn=8",
               "model.block.mlp.init_std=0.5"},
              more);
}

/// The bias and the counts are buffers, which the end of a step changes.
inline const Sets kBalanced = {"model.block.mlp.router.score=\"sigmoid\"",
                               "model.block.mlp.router.bias_rate=0.05",
                               "model.block.mlp.sequence_loss=0.1",
                               "model.block.mlp.global_loss=0.1",
                               "model.block.mlp.z_loss=0.01"};
/// All loads are known from shapes.
inline const Sets kExpertChoice = {"model.block.mlp.router.type=\"expert_choice\""};
inline const Sets kPadded = {"model.block.mlp.capacity_factor=1.0",
                             "model.block.mlp.pad_to_capacity=true"};

}  // namespace tessera::testing

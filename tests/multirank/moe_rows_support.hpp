#pragma once
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "invariant_support.hpp"

/// What the rows of mixtures of experts have in common.
namespace tessera::testing::moe_rows {

inline const std::string kRows = "parallel.sequence_parallel=true";
inline const std::string kGather = "model.block.mlp.dispatcher.type=\"allgather\"";
inline const std::string kDistributed = "optimizer.type=\"distributed\"";
inline const Sets kTensor = {"parallel.tensor=2"}, kContext = {"parallel.context=2"};
inline const Sets kTensorRows = {"parallel.tensor=2", kRows};

inline Sets experts(int ranks, const Sets& more = {}) {
  return with({fmt::format("parallel.expert={}", ranks)}, more);
}
inline Sets parts(int ranks, const Sets& more = {}) {
  return with({fmt::format("parallel.expert_tensor={}", ranks)}, more);
}
/// Two ranks.
inline Sets stages(std::string_view schedule, const Sets& more) {
  return with({"parallel.pipeline=2", fmt::format("schedule.type=\"{}\"", schedule)}, more);
}
/// Four stages of as many layers each, where the embedding and the head count as layers.
inline const Sets kEven4 = {"placement.count_embedding=true", "placement.count_head=true"};

/// Two of eight experts for each row.
inline const Sets& model() {
  static const Sets kModel = {"model.block.mlp.type=\"moe\"",
                              "model.block.mlp.experts=8",
                              "model.block.mlp.ffn=8",
                              "model.block.mlp.init_std=0.5"};  // so that experts are heard
  return kModel;
}

}  // namespace tessera::testing::moe_rows

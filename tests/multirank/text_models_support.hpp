#pragma once
#include <functional>

#include "invariant_support.hpp"
#include "training_support.hpp"

namespace tessera::testing {

/// In FP64, with weights so large that the next token depends on all before it.
inline const Sets kExact = {"precision.compute=\"fp64\"",
                            "precision.main=\"fp64\"",
                            "model.dropout=0.0",
                            "model.init_std=0.4",
                            "check.replicas_every=0"};
/// Models whose layers keep rows in a cache.
inline const Sets kDecoder = {"model.embedding.learned_positions=false",
                              "model.block.norm.type=\"rmsnorm\"",
                              "model.block.mlp.type=\"gated_mlp\"",
                              "model.block.attention.rotary.type=\"default\"",
                              "model.block.attention.kv_heads=2",
                              "model.block.attention.window=3"};
inline const Sets kLatent = {"model.block.attention.type=\"latent_attention\"",
                             "model.block.attention.kv_latent=8",
                             "model.block.attention.fixed_size=6",
                             "model.block.attention.rotary_size=4"};
inline const Sets kExperts = {
    "model.block.mlp.type=\"moe\"", "model.block.mlp.experts=4", "model.block.mlp.ffn=8"};

/// Calls body on each rank of tiny_config() with kExact and `sets`, untrained.
void on_exact_ranks(const PluginHost& host,
                    const Sets& sets,
                    const std::function<void(RankRun&)>& body);

}  // namespace tessera::testing

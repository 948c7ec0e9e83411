#pragma once
#include <string>
#include <vector>

#include "tessera/layer.hpp"
#include "tessera/schedule.hpp"

namespace tessera {

/// One phase of a chunk, as plan and graph policies see it.
struct PhaseInfo {
  int chunk = 0;
  int layer = 0;  ///< within the model; -1: of no layer, passes on
  int phase = 0;  ///< within the chunk
  std::string scope;
  Shapes shapes = Shapes::fixed;
  /// Its activations are dropped after F and computed again before its backward. Neighbours of one
  /// layer that do so form a recomputed range: it keeps the input of the first of them only.
  bool recompute = false;
  /// Captured range that it belongs to, counted over all chunks of the rank. Its graphs run all of
  /// its phases with the forward of the first and the backward of the last. -1: not captured.
  int graph = -1;
  /// It starts an exchange that the phase after it waits for (Phase::starts_exchange).
  bool starts_exchange = false;
};

/// An action of phase grain, with what it waits for.
struct PlanAction {
  enum Kind : u8 { F, B, Bi, Bw, Recompute, Exchange, Gather, Prepare, Reduce, Step } kind = F;
  int microbatch = -1;  ///< of F … Recompute
  int chunk = -1;
  int phase = -1;   ///< its index in Plan::phases, which has those of all chunks; -1: of none
  int bucket = -1;  ///< of Gather, Prepare, Reduce
  /// What crosses one stage boundary for one microbatch.
  struct Message {
    int peer = 0;                   ///< pipeline rank
    int microbatch = 0, stage = 0;  ///< stage that computed it
    bool forward = true;            ///< activations, otherwise gradients
  };
  std::vector<Message> sends, receives;  ///< of Exchange
  std::vector<int> after;                ///< indices of actions of this plan that come first
  /// Earlier exchanges: before this action their sends are waited for, and the memory of what they
  /// sent is free. Those that no action names are waited for at the end.
  std::vector<int> released;
};
TESSERA_API std::string_view action_name(PlanAction::Kind kind);

/// Everything one rank does in one step, in launch order, for verifier, executor, memory model,
/// graph policy and planner.
struct TESSERA_API Plan {
  PipelineShape shape;
  std::vector<PhaseInfo> phases;  ///< all chunks of this rank
  std::vector<int> live;          ///< bound per chunk
  std::vector<int> stages;        ///< virtual stage of each chunk
  /// Layers (within the model) whose parameters have gradients in each bucket.
  std::vector<std::vector<int>> bucket_layers;
  /// Axes of the replicas over which each bucket is summed: "dp-cp", "edp" for experts. Empty: not
  /// known.
  std::vector<std::string> bucket_groups;
  /// Ranks update shards of the buckets: each has a Gather before its layers' first forward phase.
  bool gathers = false;
  /// By bucket: does it hold weights with prepared forms? Then it has a Prepare before its layers'
  /// first forward phase, after its Gather. Empty: none does.
  std::vector<bool> prepared;
  std::vector<PlanAction> actions;
  /// "F mb0 chunk0 layer1 attn", "Exchange send F mb0 stage1 to rank 2".
  std::string text(const PlanAction& action) const;
  /// One line an action.
  std::string text() const;
};

}  // namespace tessera

#pragma once
#include <string>
#include <vector>

#include "kernel/schedule/lower.hpp"
#include "tessera/plan.hpp"
#include "tessera/schedule.hpp"

namespace tessera::testing {

/// A schedule whose orders are given.
class GivenSchedule final : public PipelineSchedule {
 public:
  explicit GivenSchedule(std::vector<std::vector<Action>> by_rank, int live = 1, int chunks = 1)
      : by_rank_(std::move(by_rank)), live_(live), chunks_(chunks) {}
  int do_chunks() const override { return chunks_; }
  int do_live(const PipelineShape&, int) const override { return live_; }
  std::vector<Action> do_order(const PipelineShape& shape) const override {
    return by_rank_.at(static_cast<std::size_t>(shape.rank));
  }

 private:
  std::vector<std::vector<Action>> by_rank_;
  int live_, chunks_;
};

/// Three layers on one rank: an embedding, a block of two phases, a head.
inline std::vector<PhaseInfo> four_phases() {
  std::vector<PhaseInfo> phases;
  const std::pair<int, std::string> all[] = {
      {0, "embedding"}, {1, "attn"}, {1, "mlp"}, {2, "head"}};
  for (const auto& [layer, scope] : all) {
    PhaseInfo info;
    info.layer = layer;
    info.phase = static_cast<int>(phases.size());
    info.scope = scope;
    phases.push_back(info);
  }
  return phases;
}

inline PipelineShape one_stage(int microbatches, bool training = true) {
  PipelineShape shape;
  shape.microbatches = microbatches;
  shape.training = training;
  return shape;
}

/// One layer of two phases in each chunk, the second of which starts an exchange.
inline std::vector<PhaseInfo> two_phases_a_chunk(int chunks, bool recompute = false) {
  std::vector<PhaseInfo> phases;
  for (int i = 0; i < 2 * chunks; ++i) {
    PhaseInfo info;
    info.chunk = info.layer = i / 2;
    info.phase = i;
    info.scope = i % 2 == 0 ? "attn" : "mlp";
    info.recompute = recompute;
    info.starts_exchange = i % 2 != 0;
    phases.push_back(info);
  }
  return phases;
}

/// The plans of all ranks, with one bucket of gradients for each chunk.
inline std::vector<Plan> lower_all(const PipelineSchedule& schedule,
                                   PipelineShape shape,
                                   bool recompute = false) {
  std::vector<Plan> plans;
  std::vector<std::vector<int>> buckets;
  for (int chunk = shape.chunks - 1; chunk >= 0; --chunk) buckets.push_back({chunk});
  for (shape.rank = 0; shape.rank < shape.ranks; ++shape.rank) {
    plans.push_back(lower(schedule, shape, two_phases_a_chunk(shape.chunks, recompute), {buckets}));
  }
  return plans;
}

}  // namespace tessera::testing

#include <algorithm>

#include "kernel/schedule/timeline.hpp"
#include "kernel/schedule/verify.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

void require_one_shape(std::span<const Plan> plans) {
  const PipelineShape& first = plans[0].shape;
  require(static_cast<int>(plans.size()) == first.ranks,
          "there are {} plans for {} pipeline ranks",
          plans.size(),
          first.ranks);
  std::vector<int> owner(plans.size() * static_cast<std::size_t>(first.chunks), -1);
  for (std::size_t rank = 0; rank < plans.size(); ++rank) {
    const PipelineShape& shape = plans[rank].shape;
    require(shape.rank == static_cast<int>(rank) && shape.ranks == first.ranks &&
                shape.chunks == first.chunks && shape.microbatches == first.microbatches &&
                shape.training == first.training &&
                static_cast<int>(plans[rank].stages.size()) == shape.chunks,
            "the plan of pipeline rank {} is of another pipeline than that of rank 0",
            rank);
    for (const int stage : plans[rank].stages) {
      require(stage >= 0 && stage < static_cast<int>(owner.size()) &&
                  owner[static_cast<std::size_t>(stage)] < 0,
              "the plan of pipeline rank {} is for stage {}, which is another's or does not exist",
              rank,
              stage);
      owner[static_cast<std::size_t>(stage)] = static_cast<int>(rank);
    }
  }
}

}  // namespace

void verify(std::span<const Plan> plans) {
  require(!plans.empty(), "there is no plan to verify");
  require_one_shape(plans);
  for (const Plan& plan : plans) verify(plan);
  // The strictest of the transports that the plans are for: every rank's exchanges on one stream.
  PlanCosts costs = unit_costs();
  costs.one_stream = true;
  play(plans, costs);
}

Pipeline verify(const PipelineSchedule& schedule, const PipelineShape& shape) {
  std::vector<PhaseInfo> phases(static_cast<std::size_t>(shape.chunks));
  for (int chunk = 0; chunk < shape.chunks; ++chunk) {
    PhaseInfo& info = phases[static_cast<std::size_t>(chunk)];
    info.chunk = info.layer = info.phase = chunk;
    info.scope = "layers";
  }
  Pipeline pipeline(schedule, shape);
  std::vector<Plan> plans;
  plans.reserve(static_cast<std::size_t>(shape.ranks));
  for (int rank = 0; rank < shape.ranks; ++rank) {
    plans.push_back(lower(pipeline, rank, phases, {}));
  }
  verify(plans);
  return pipeline;
}

}  // namespace tessera

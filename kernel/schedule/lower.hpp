#pragma once
#include <vector>

#include "tessera/plan.hpp"
#include "tessera/schedule.hpp"

namespace tessera {

/// Turns a schedule's compute actions into the plan of one rank: phases in order, exchanges with
/// the other ranks (see exchanges_of), recomputed segments in front of their backward, each
/// bucket's reduction behind the phase whose last backward completes it, one Step at the end.
/// `phases` are those of all chunks of this rank; bucket_layers[b] are the layers (within the
/// model) whose parameters have gradients in bucket b. Throws Error when the schedule lists what
/// does not exist; verify() checks the rest.
Plan lower(const PipelineSchedule& schedule,
           const PipelineShape& shape,
           std::vector<PhaseInfo> phases,
           const std::vector<std::vector<int>>& bucket_layers);

}  // namespace tessera

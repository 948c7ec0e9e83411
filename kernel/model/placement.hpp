#pragma once
#include <span>
#include <vector>

#include "kernel/config/run_config.hpp"
#include "tessera/model.hpp"
#include "tessera/schedule.hpp"

namespace tessera {

/// Layers [first, last) of a model's linear list.
struct LayerRange {
  int first = 0, last = 0;
};

/// Cuts the list into one run for each virtual stage, as [placement] says: by its layout string, by
/// its counts for the first and last pipeline rank, or evenly. `ranks`: the pipeline rank of each
/// virtual stage, each as often as it has chunks. Throws ConfigError with the numbers when that is
/// impossible or a stage would be empty that no layout string says is.
std::vector<LayerRange> cut_layers(std::span<const ModelLayer> layers,
                                   std::span<const int> ranks,
                                   const PlacementSection& placement);

/// Which layers live where in the pipeline.
struct StageMap {
  struct Stage {
    LayerRange layers;
    int rank = 0, chunk = 0;  ///< pipeline rank, and chunk of that rank
  };
  std::vector<Stage> stages;  ///< in model order

  int last() const { return static_cast<int>(stages.size()) - 1; }
  int stage_of_layer(int layer) const;
  int stage_of_chunk(int rank, int chunk) const;
};

/// Asks the schedule for the place of every chunk. Throws Error unless each stage has exactly one.
StageMap map_stages(const PipelineSchedule& schedule,
                    int ranks,
                    std::span<const ModelLayer> layers,
                    const PlacementSection& placement);

}  // namespace tessera

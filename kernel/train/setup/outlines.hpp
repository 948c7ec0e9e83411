#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernel/comm/rank.hpp"
#include "kernel/model/model_parts.hpp"
#include "kernel/train/setup/outline.hpp"
#include "kernel/train/setup/run_setup.hpp"

namespace tessera {

/// What a rank has to know of the layers of the other stages.
struct OtherStages {
  ModelParts::Holders holders;
  std::vector<ModelParts::LossInfo> losses;
  std::vector<ModelParts::MetricInfo> metrics;
  std::vector<ModelParts::CountInfo> counts;
  std::vector<Boundary> boundaries;
  std::vector<ParameterName> parameter_names;
  std::vector<std::string> buffer_names;
  i64 parameter_elements = 0, active_elements = 0;
};

/// Outlines of the ranks of one process. Those of a pipeline group share one, because a large model
/// takes seconds. Used by any thread.
class Outlines {
 public:
  /// `setup` outlives it. `locate_errors` as in PlaceOptions.
  explicit Outlines(const RunSetup& setup, bool locate_errors = false)
      : setup_(setup), locate_errors_(locate_errors) {}
  /// Builds the whole model over a dry rank and runs its layers once, if no rank of the same
  /// pipeline group was here before; nothing where there is one stage. Throws ConfigError for what
  /// does not fit.
  std::shared_ptr<const OtherStages> of(const Rank& rank);

 private:
  OtherStages outline(const Rank& rank) const;

  const RunSetup& setup_;
  const bool locate_errors_;
  std::mutex mutex_;
  std::map<i64, std::shared_ptr<const OtherStages>> done_;  // by the pipeline group's first rank
};

/// Names of the buffers that checkpoints hold.
std::vector<std::string> saved_buffers(const ModelParts& parts);

}  // namespace tessera

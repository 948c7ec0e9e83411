#pragma once
#include <memory>

#include "kernel/train/host_maker.hpp"
#include "tessera/data.hpp"
#include "tessera/model.hpp"
#include "tessera/schedule.hpp"

namespace tessera {

/// What is derived from a configuration alone, the same on every rank and without a device: used by
/// the checks before a run, by ranks, by generation.
struct RunSetup {
  Layout layout;
  i64 data_ranks = 1;
  i64 microbatches = 1;  ///< of one data-parallel rank in a step
  std::shared_ptr<Dataset> dataset;
  std::shared_ptr<Model> model;
  std::shared_ptr<PipelineSchedule> schedule;
  BatchShape batch;
};

/// Ranks that the configuration asks for: comm.ranks, or the product of the layout.
i64 world_size(const RunConfig& config);
/// The layout for a world of this size. Throws ConfigError with the numbers.
Layout layout_of(const RunConfig& config, i64 world);
DType precision_of(const std::string& name);

/// Makes dataset, model and schedule and checks the batch against the layout. ConfigError names
/// keys and numbers.
RunSetup set_up(const RunConfig& config, ComponentMaker& maker, i64 world);

/// Builds the model of every distinct tensor-parallel rank without a device, so that sizes that do
/// not divide are found before any rank starts.
void check_models(const RunConfig& config, const RunSetup& setup, ComponentMaker& maker);

}  // namespace tessera

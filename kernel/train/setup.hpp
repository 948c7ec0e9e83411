#pragma once
#include <memory>
#include <string>
#include <vector>

#include "kernel/train/host_maker.hpp"
#include "tessera/data.hpp"
#include "tessera/model.hpp"
#include "tessera/schedule.hpp"

namespace tessera {

/// What is derived from a configuration alone, the same on every rank and without a device: used by
/// the checks before a run, by ranks, by generation.
struct RunSetup {
  Layout layout;
  i64 microbatches = 1;  ///< of one data-parallel rank in a step
  BatchShape batch;
  std::shared_ptr<Dataset> dataset;
  std::shared_ptr<Model> model;
  std::shared_ptr<PipelineSchedule> schedule;
};

/// Ranks that the configuration asks for: comm.ranks, or the product of the layout.
i64 world_size(const RunConfig& config);
DType precision_of(const std::string& name);

// The parts of set_up. Each throws ConfigError with file, line, key and numbers.
Layout layout_of(const RunConfig& config, const ComponentMaker& maker, i64 world);
i64 microbatches_of(const RunConfig& config, const ComponentMaker& maker, const Layout& layout);
i64 sequence_length_of(const RunConfig& config, ComponentMaker& maker);
/// Positions of a sample on one context-parallel rank (zigzag.hpp).
i64 local_sequence_of(const RunConfig& config, const ComponentMaker& maker, i64 sequence_length);
BatchShape batch_shape_of(const RunConfig& config,
                          const ComponentMaker& maker,
                          i64 sequence_length);
std::shared_ptr<Dataset> make_dataset(const RunConfig& config,
                                      ComponentMaker& maker,
                                      i64 sequence_length);
std::shared_ptr<PipelineSchedule> make_schedule(const RunConfig& config, ComponentMaker& maker);

/// What the model is built with; without a device it is only checked.
BuildSettings build_settings_of(const RunConfig& config,
                                ComponentMaker& maker,
                                const BatchShape& batch,
                                const Mesh& mesh,
                                const Device* device);

/// With a tokenizer given no dataset is made: a model without training data. With a dataset given,
/// the configured one is not made.
RunSetup set_up(const RunConfig& config,
                ComponentMaker& maker,
                i64 world,
                const Tokenizer* tokenizer = nullptr,
                std::shared_ptr<Dataset> dataset = nullptr);

/// Everything that can be known to be wrong with a run before a rank starts, one text a problem:
/// layout, batch, data, schedules, and the model of every distinct tensor-parallel rank, built
/// without a device. Empty when a run can start.
std::vector<std::string> find_problems(const RunConfig& config, ComponentMaker& maker, i64 world);
/// The same as one ConfigError, if there are any.
void check_run(const RunConfig& config, ComponentMaker& maker, i64 world);

}  // namespace tessera

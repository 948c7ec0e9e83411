#pragma once
#include <memory>
#include <string>
#include <vector>

#include "kernel/train/setup.hpp"

namespace tessera {

/// Samples of the right shapes without values, for a plan whose data is not on this machine: all
/// positions count. Fields are "tokens", "targets" and a mask for each loss term.
std::shared_ptr<Dataset> make_planned_dataset(i64 sequence_length,
                                              const std::vector<std::string>& losses);

/// The configured data, or, where it cannot be opened, planned_dataset; `note` then says so. Throws
/// the data's error when the model's vocabulary depends on it.
std::shared_ptr<Dataset> data_for_plan(const RunConfig& config,
                                       ComponentMaker& maker,
                                       const RankGenerator& ranks,
                                       std::string& note);

}  // namespace tessera

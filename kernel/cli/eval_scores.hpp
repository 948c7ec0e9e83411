#pragma once
#include <string>

#include "kernel/train/setup/run_setup.hpp"
#include "tessera/evaluation.hpp"

namespace tessera {

/// Throws ConfigError where `tessera eval --scores FILE` would fail in the end: the file is there
/// already, its folder is not, or the evaluation is of texts. Before ranks start.
void check_scores_file(const std::string& file, const RunSetup& setup);

/// Writes the file: an object a line, of each sample where it is in the data and its scores.
void write_scores(const std::string& file, const Dataset& samples, const SampleScores& scores);

}  // namespace tessera

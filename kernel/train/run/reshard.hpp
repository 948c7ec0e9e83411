#pragma once
#include <filesystem>
#include <string>

#include "kernel/train/setup/run_setup.hpp"

namespace tessera {

/// Writes the checkpoint `from` once more, as `out`/step-N, in the files that the run of `setup`
/// would have saved it in: each of its ranks then reads whole files, and no other rank's. Every
/// tensor keeps its bits. `config_text` is the resolved configuration of `setup`. Throws
/// ConfigError when the checkpoint does not fit that run or `out` has this step; Error when it is
/// damaged. Returns the new folder.
std::filesystem::path reshard(const std::filesystem::path& from,
                              const std::filesystem::path& out,
                              const RunSetup& setup,
                              const std::string& config_text,
                              int threads);

}  // namespace tessera

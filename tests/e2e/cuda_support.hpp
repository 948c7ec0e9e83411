#pragma once
#include <string>
#include <vector>

#include "program_support.hpp"

namespace tessera::testing {

inline const std::string kShakespeare = TESSERA_SOURCE_DIR "/configs/shakespeare.toml";

/// The command on a device of the tests' plugins; empty: on that of the configuration.
std::vector<std::string> on_device(const std::string& device, std::vector<std::string> command);

/// A training made small: an emulated GPU is slow.
std::vector<std::string> training(const std::string& device,
                                  const std::string& out,
                                  const std::vector<std::string>& more = {},
                                  const std::string& config = kShakespeare);

}  // namespace tessera::testing

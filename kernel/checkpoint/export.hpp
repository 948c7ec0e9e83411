#pragma once
#include <filesystem>
#include <optional>

#include "tessera/types.hpp"

namespace tessera {

struct Exported {
  i64 tensors = 0, bytes = 0;
};
/// Writes the parameters of a checkpoint, without the optimizer's state, into one new safetensors
/// file, floating ones as `dtype` where it is given. Throws ConfigError when the file is there
/// already; Error when the checkpoint is damaged or the file cannot be written: then there is none.
Exported export_parameters(const std::filesystem::path& folder,
                           const std::filesystem::path& file,
                           std::optional<DType> dtype);

}  // namespace tessera

#pragma once
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "kernel/checkpoint/checkpoint_tensor.hpp"
#include "kernel/checkpoint/index.hpp"

namespace tessera {

/// A rank's side of loading: the contents of its range of every tensor, padding zero. Reads the
/// blocks that hold an element of them and nothing else. `others` are names that the checkpoint may
/// hold beyond them, those of other pipeline stages; nullptr: any. A parameter among `others` may
/// have any state, "<parameter>/<state>", unless the parameter or a state of it is in `tensors`:
/// the ranks that load it judge that. Throws ConfigError listing what does not fit, or Error
/// listing what is damaged.
std::vector<HostBytes> read_tensors(const std::filesystem::path& folder,
                                    const CheckpointIndex& index,
                                    const std::vector<CheckpointTensor>& tensors,
                                    const std::vector<std::string>* others);

}  // namespace tessera

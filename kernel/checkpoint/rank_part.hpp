#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "kernel/checkpoint/checkpoints.hpp"
#include "kernel/checkpoint/index.hpp"

namespace tessera {

/// A rank's side of saving: writes its slices of every tensor that it stands for to
/// `folder`/rank-N.safetensors, and what they are to rank-N.json. Both are on the disk when it
/// returns. The result proves to rank 0 that it reads the same: pass it to read_part.
std::string write_part(const std::filesystem::path& folder,
                       const Mesh& mesh,
                       Device& device,
                       const std::vector<CheckpointTensor>& tensors);

/// What rank `rank` wrote, for rank 0. Throws Error when the files are not there as reported: a
/// folder that the hosts do not share. Removes rank-N.json.
CheckpointIndex read_part(const std::filesystem::path& folder, i64 rank, const std::string& proof);

using HostBytes = std::vector<std::byte>;
/// A rank's side of loading: the contents of its range of every tensor, padding zero. `others`
/// are names that the checkpoint may hold beyond them, those of other pipeline stages; nullptr:
/// any. Throws ConfigError listing what does not fit, or Error listing what is damaged.
std::vector<HostBytes> read_tensors(const std::filesystem::path& folder,
                                    const CheckpointIndex& index,
                                    const std::vector<CheckpointTensor>& tensors,
                                    const std::vector<std::string>* others);

}  // namespace tessera

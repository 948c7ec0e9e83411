#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "kernel/checkpoint/index.hpp"

namespace tessera {

/// The second phase of saving, on rank 0: turns what all ranks wrote into `temporary` into the
/// checkpoint `target`. The slices must tile every tensor. `proofs` are what RankPart::write
/// returned, by rank.
void commit_parts(const CheckpointInfo& info,
                  const std::vector<std::string>& proofs,
                  const std::filesystem::path& temporary,
                  const std::filesystem::path& target);

}  // namespace tessera

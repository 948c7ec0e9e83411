#include "kernel/train/run/reshard.hpp"

#include <map>
#include <memory>
#include <system_error>
#include <vector>

#include "kernel/checkpoint/commit.hpp"
#include "kernel/checkpoint/folder_place.hpp"
#include "kernel/checkpoint/folders.hpp"
#include "kernel/checkpoint/rank_load.hpp"
#include "kernel/checkpoint/rank_part.hpp"
#include "kernel/dry/dry_rank.hpp"
#include "kernel/train/execution/train_step.hpp"
#include "kernel/train/run/meaning.hpp"
#include "kernel/train/run/training_state.hpp"
#include "kernel/train/setup/make_rank.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;

// Writes what this rank would have saved, from the contents of the other checkpoint.
std::string write_rank(const Rank& rank,
                       const RunSetup& setup,
                       const fs::path& from,
                       const CheckpointIndex& index,
                       const fs::path& to,
                       int threads) {
  PlacedModel model(rank, setup);
  TrainStep step(model);
  const TrainingState state(model, step);
  const std::vector<std::string> names = state.names();
  const RankPart part(*rank.mesh, state.tensors());
  require_fit(from, index, part.tensors(), &names);
  std::map<std::string, HostBytes> by_name;
  read_tensors(from, index, part.tensors(), [&](const CheckpointTensor& tensor, HostBytes bytes) {
    by_name[tensor.name] = std::move(bytes);
  });
  const auto values = [&](const CheckpointTensor& tensor, HostBytes&) {
    return std::span<const std::byte>(by_name.at(tensor.name));
  };
  return part.write(to, values, threads);
}

}  // namespace

fs::path reshard(const fs::path& from,
                 const fs::path& out,
                 const RunSetup& setup,
                 const std::string& config_text,
                 int threads) {
  const CheckpointIndex index = read_index(from);
  require_same_keys(from,
                    compare_meaning(index.info, *setup.tree, nullptr),
                    "a checkpoint may change its layout only: leave these keys out");
  CheckpointInfo info = index.info;
  info.config = config_text;
  const fs::path target = step_folder(out, info.step);
  std::error_code unknown;
  if (fs::exists(target, unknown)) fail_config("{} is there already", target.string());
  if (const std::string why = why_no_folder(target); !why.empty()) fail_config("{}", why);
  const FolderLock lock(out, ".lock", "OUT");
  const std::string run = "reshard";
  remove_stale(out, run);
  const fs::path temporary = temporary_folder(out, info.step, run);
  fs::create_directory(temporary);
  try {
    const auto device = make_planned_device(rank_spec_of(setup), threads);
    std::vector<std::string> proofs;
    for (i64 rank = 0; rank < setup.layout.world; ++rank) {
      proofs.push_back(
          write_rank(dry_rank(setup.layout, rank, device), setup, from, index, temporary, threads));
    }
    commit_parts(info, proofs, temporary, target);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    throw;
  }
  return target;
}

}  // namespace tessera

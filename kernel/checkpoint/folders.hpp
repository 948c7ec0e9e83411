#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/device/descriptor.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// "<folder>/step-120"
std::filesystem::path step_folder(const std::filesystem::path& folder, i64 step);
/// "<folder>/step-120.<run>.tmp": where that step is written, and what is on its way out.
std::filesystem::path temporary_folder(const std::filesystem::path& folder,
                                       i64 step,
                                       const std::string& run);

/// A folder, or a link to one, below a checkpoints' folder that has the name of a step's.
struct StepFolder {
  i64 step = 0;
  std::filesystem::path path;
  bool complete = false;
};
/// All of them, the newest first; temporary ones are not complete. None when `folder` does not
/// exist; throws when it cannot be read.
std::vector<StepFolder> step_folders(const std::filesystem::path& folder);
/// The complete ones, the newest first.
std::vector<std::filesystem::path> complete_steps(const std::filesystem::path& folder);
/// Warns of steps that lost their index and are newer than the newest complete one: no run leaves
/// such. Returns whether there are any.
bool warn_of_incomplete(const std::filesystem::path& folder);
/// The same for what find_checkpoints() found below `named`; where that is a checkpoint itself,
/// others do not count.
bool warn_of_incomplete(const std::filesystem::path& named, const std::filesystem::path& newest);
/// The complete ones below what a user may name: a checkpoint itself, a folder of checkpoints, or a
/// run's. Throws ConfigError when there is none.
std::vector<std::filesystem::path> find_checkpoints(const std::filesystem::path& named);
/// The newest that find_checkpoints() finds, for a command that takes one. It warns of newer ones
/// that it passes over, as warn_of_incomplete() does.
std::filesystem::path newest_checkpoint(const std::filesystem::path& named);

/// Throws ConfigError where a run that saves in `folder`, and starts as `resume` says ("auto",
/// "none", or what find_checkpoints takes), would not go on from the newest complete checkpoint
/// there: what it saves would mix with another run's, replace it, and be taken for newer or older
/// than it is.
void require_no_mixture(const std::filesystem::path& folder, const std::string& resume);

/// Keeps the `keep` newest complete ones up to step `newest` and removes older ones. Those of
/// later steps stay: they belong to a run that was left for an earlier step.
void remove_old(const std::filesystem::path& folder, i64 newest, i64 keep, const std::string& run);
/// Renames it to "step-N.bad", in place of an older one of that name: it is no checkpoint any more.
void give_up_step(const std::filesystem::path& path);
/// Removes what crashes of this run left over.
void remove_stale(const std::filesystem::path& folder, const std::string& run);
/// Renames `temporary` to `target` and syncs the parent; an older `target` makes way. At every
/// moment one of them is there, the older one perhaps as "<target>.old".
void replace_folder(const std::filesystem::path& temporary, const std::filesystem::path& target);

/// What this host calls itself, for locks and records.
std::string host_name();

/// Reserves a folder for one run, until it is destroyed or its process ends in any way.
class FolderLock {
 public:
  /// Makes the folder and in it the file `name`, which stays. Throws Error when that fails, or when
  /// another run holds it; the text says to set `key`. Warns where the file system has no locks.
  FolderLock(const std::filesystem::path& folder, std::string_view name, std::string_view key);

  /// Is its file still in place? Where somebody removed or replaced it, or the folder, another run
  /// may take the place.
  bool holds() const;

 private:
  std::filesystem::path file_;
  Descriptor lock_;
};

}  // namespace tessera

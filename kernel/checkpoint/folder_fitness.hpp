#pragma once
#include <filesystem>
#include <string>

#include "kernel/comm/control_plane/control_plane.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// On all ranks: every rank reads back what rank 0 writes into `folder`, and nothing is left there.
/// Throws SharedError, with the exit code of a ConfigError, where some do not: hosts have folders
/// of that name of their own. It names these ranks and their hosts. `run` names the file, as
/// temporary_folder() does.
void require_common(const std::filesystem::path& folder,
                    const std::string& run,
                    const ControlPlane& plane,
                    bool root);

/// What a run will write into its folder of checkpoints.
struct RoomWanted {
  i64 bytes = 0;  ///< of one checkpoint, at least
  i64 saves = 1;  ///< still to come
  i64 keep = 0;   ///< as CheckpointArguments::keep
};

/// Throws ConfigError where the disk of `folder` has no room for one checkpoint; warns where it has
/// none for all that stay side by side. Silent where the file system does not tell.
void require_room(const std::filesystem::path& folder, const RoomWanted& wanted);

}  // namespace tessera

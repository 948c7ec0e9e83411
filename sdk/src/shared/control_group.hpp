#pragma once
#include <filesystem>
#include <string_view>
#include <vector>

#include "tessera/base/api.hpp"

namespace tessera {

/// Where the system describes the control groups that bound this process in `controller` ("cpu",
/// "memory", "pids"): the folder of its own group, then of each group above it up to the root, of
/// version 2 and of version 1. A folder need not exist: a container may see its own group as the
/// root of `mounted` and not under the path that /proc names. `proc` and `mounted` are for tests.
/// Any thread may call it.
TESSERA_API std::vector<std::filesystem::path> control_groups(
    std::string_view controller,
    const std::filesystem::path& proc = "/proc",
    const std::filesystem::path& mounted = "/sys/fs/cgroup");

}  // namespace tessera

#pragma once
#include <filesystem>
#include <optional>

#include "tessera/base/api.hpp"

namespace tessera {

/// CPUs that control groups grant, the smallest of a group and those above it; nothing without a
/// quota. Exported for its tests, like the next. `proc` and `mounted` as in control_groups().
TESSERA_API std::optional<double> cpu_quota(
    const std::filesystem::path& proc = "/proc",
    const std::filesystem::path& mounted = "/sys/fs/cgroup");

/// usable_cpus() of a process whose affinity mask has this many CPUs.
TESSERA_API int cpus_within_quota(int affinity,
                                  const std::filesystem::path& proc = "/proc",
                                  const std::filesystem::path& mounted = "/sys/fs/cgroup");

}  // namespace tessera

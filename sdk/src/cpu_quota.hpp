#pragma once
#include <filesystem>
#include <optional>

namespace tessera {

/// CPUs that control groups grant, the smallest of a group and those above it; nothing without a
/// quota. `proc` and `mounted` as in control_groups().
std::optional<double> cpu_quota(const std::filesystem::path& proc = "/proc",
                                const std::filesystem::path& mounted = "/sys/fs/cgroup");

/// usable_cpus() of a process whose affinity mask has this many CPUs.
int cpus_within_quota(int affinity,
                      const std::filesystem::path& proc = "/proc",
                      const std::filesystem::path& mounted = "/sys/fs/cgroup");

}  // namespace tessera

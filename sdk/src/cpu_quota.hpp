#pragma once
#include <filesystem>
#include <optional>
#include <string_view>

namespace tessera {

/// CPUs that control groups grant, the smallest of a group and those above it; nothing without a
/// quota. `groups` is the text of /proc/self/cgroup and `mounted` is where control groups are
/// mounted, /sys/fs/cgroup.
std::optional<double> cpu_quota(std::string_view groups, const std::filesystem::path& mounted);

}  // namespace tessera

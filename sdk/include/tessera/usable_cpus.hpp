#pragma once
#include "tessera/api.hpp"

namespace tessera {

/// How many CPUs this process may keep busy, at least 1: those of its affinity mask, and no more
/// than the quotas of its control group and of the groups above it (cgroup v2 `cpu.max`, v1
/// `cpu.cfs_quota_us`), rounded down: a thread more than the quota allows would stop all of them
/// for the rest of each period. Reads files under /proc and /sys; any thread may call it.
TESSERA_API int usable_cpus();

}  // namespace tessera

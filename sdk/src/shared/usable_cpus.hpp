#pragma once
#include <vector>

#include "tessera/base/api.hpp"

namespace tessera {

/// The CPUs that this process may run on, in ascending order, at least one: those of its affinity
/// mask. Where OpenMP binds threads (OMP_PROC_BIND, OMP_PLACES, GOMP_CPU_AFFINITY), those of all
/// its places: it has then bound the first thread to the first place, and the mask is lost. Any
/// thread may call it.
TESSERA_API std::vector<int> allowed_cpus();

/// How many CPUs this process may keep busy, at least 1: allowed_cpus(), and no more than the
/// quotas of its control group and of the groups above it (cgroup v2 `cpu.max`, v1
/// `cpu.cfs_quota_us`), rounded down: a thread more than the quota allows would stop all of them
/// for the rest of each period. Reads files under /proc and /sys; any thread may call it.
TESSERA_API int usable_cpus();

}  // namespace tessera

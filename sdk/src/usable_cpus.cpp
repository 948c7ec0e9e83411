#include "tessera/usable_cpus.hpp"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "sdk/src/cpu_quota.hpp"
#include "tessera/control_group.hpp"

namespace tessera {

namespace fs = std::filesystem;

namespace {

// "max 100000" or "150000 100000"; nothing without a quota.
std::optional<double> quota_v2(const fs::path& group) {
  std::ifstream file(group / "cpu.max");
  double quota = 0, period = 0;
  if (!(file >> quota >> period) || period <= 0) return std::nullopt;
  return quota / period;
}

// A quota of -1 is none.
std::optional<double> quota_v1(const fs::path& group) {
  std::ifstream quota_file(group / "cpu.cfs_quota_us"), period_file(group / "cpu.cfs_period_us");
  double quota = 0, period = 0;
  if (!(quota_file >> quota && period_file >> period) || quota <= 0 || period <= 0) {
    return std::nullopt;
  }
  return quota / period;
}

int affinity_cpus() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return CPU_COUNT(&allowed);
  // The mask of a machine with more than 1,024 CPUs does not fit.
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

std::optional<double> cpu_quota(const fs::path& proc, const fs::path& mounted) {
  std::optional<double> least;
  for (const fs::path& group : control_groups("cpu", proc, mounted)) {
    for (const std::optional<double> quota : {quota_v2(group), quota_v1(group)}) {
      if (quota) least = std::min(least.value_or(*quota), *quota);
    }
  }
  return least;
}

int cpus_within_quota(int affinity, const fs::path& proc, const fs::path& mounted) {
  const double cpus = affinity;
  return std::max(1, static_cast<int>(std::min(cpus, cpu_quota(proc, mounted).value_or(cpus))));
}

int usable_cpus() { return cpus_within_quota(affinity_cpus()); }

}  // namespace tessera

#include "sdk/src/shared/usable_cpus.hpp"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <numeric>
#include <thread>

#include "sdk/src/cpu_quota.hpp"
#include "sdk/src/shared/control_group.hpp"
#include "tessera/device/thread_team.hpp"

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

// Empty where OpenMP binds no thread.
std::vector<int> cpus_of_places() {
  std::vector<int> all;
  if (!threads_are_bound()) return all;
  for (int place = 0; place < omp_get_num_places(); ++place) {
    std::vector<int> cpus(static_cast<std::size_t>(omp_get_place_num_procs(place)));
    omp_get_place_proc_ids(place, cpus.data());
    all.insert(all.end(), cpus.begin(), cpus.end());
  }
  std::ranges::sort(all);
  all.erase(std::ranges::unique(all).begin(), all.end());
  return all;
}

// CPUs of this thread's affinity mask.
std::vector<int> cpus_of_mask() {
  constexpr std::size_t kMost = 1 << 16;  // CPUs; the system refuses a set that is too small
  std::vector<int> all;
  for (std::size_t most = CPU_SETSIZE; most <= kMost; most *= 2) {
    std::vector<cpu_set_t> set(most / CPU_SETSIZE);
    const std::size_t bytes = set.size() * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, set.data()) != 0) {
      if (errno == EINVAL) continue;
      break;
    }
    for (std::size_t cpu = 0; cpu < most; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, set.data())) all.push_back(static_cast<int>(cpu));
    }
    break;
  }
  return all;
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

std::vector<int> allowed_cpus() {
  std::vector<int> cpus = cpus_of_places();
  if (cpus.empty()) cpus = cpus_of_mask();
  if (cpus.empty()) {  // the system does not tell
    cpus.resize(std::max(1U, std::thread::hardware_concurrency()));
    std::iota(cpus.begin(), cpus.end(), 0);
  }
  return cpus;
}

int usable_cpus() { return cpus_within_quota(static_cast<int>(allowed_cpus().size())); }

}  // namespace tessera

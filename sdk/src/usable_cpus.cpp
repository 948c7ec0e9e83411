#include "tessera/usable_cpus.hpp"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>

#include "sdk/src/cpu_quota.hpp"

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

bool names_cpu(std::string_view controllers) {
  std::istringstream list{std::string(controllers)};
  for (std::string name; std::getline(list, name, ',');) {
    if (name == "cpu") return true;
  }
  return false;
}

int affinity_cpus() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return CPU_COUNT(&allowed);
  // The mask of a machine with more than 1,024 CPUs does not fit.
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

std::optional<double> cpu_quota(std::string_view groups, const fs::path& mounted) {
  std::optional<double> least;
  // A container may see its own group as the root of the mount and not under the path that /proc
  // names: groups that are not there grant what they like.
  const auto up_from = [&](const fs::path& root, std::string_view path, const auto& quota_of) {
    fs::path group = fs::path(path).relative_path().lexically_normal();
    while (true) {
      const std::optional<double> quota = quota_of(root / group);
      if (quota) least = std::min(least.value_or(*quota), *quota);
      if (group.empty()) return;
      group = group.parent_path();
    }
  };
  std::istringstream lines{std::string(groups)};
  for (std::string line; std::getline(lines, line);) {  // "4:cpu,cpuacct:/path", v2 "0::/path"
    const std::size_t first = line.find(':');
    const std::size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      up_from(mounted, path, quota_v2);
    } else if (names_cpu(controllers)) {
      up_from(mounted / controllers, path, quota_v1);
      up_from(mounted / "cpu", path, quota_v1);
    }
  }
  return least;
}

int usable_cpus() {
  std::ifstream file("/proc/self/cgroup");
  const std::string groups(std::istreambuf_iterator<char>(file), {});
  const double cpus = affinity_cpus();
  return std::max(
      1, static_cast<int>(std::min(cpus, cpu_quota(groups, "/sys/fs/cgroup").value_or(cpus))));
}

}  // namespace tessera

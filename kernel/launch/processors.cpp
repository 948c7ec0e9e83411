#include "kernel/launch/processors.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <map>
#include <string_view>
#include <utility>

#include "sdk/src/shared/usable_cpus.hpp"
#include "tessera/device/thread_team.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

constexpr std::size_t kWordBits = sizeof(unsigned long) * CHAR_BIT;

// "0-3,8": as the system writes lists of CPUs.
std::string list_text(const std::vector<int>& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (!text.empty()) text += ",";
    text += fmt::format("{}", cpus[i]);
    if (last > i) text += fmt::format("-{}", cpus[last]);
    i = last + 1;
  }
  return text;
}

// Ranks that run in the same place: "0, 1 and 3".
std::string ranks_text(const std::vector<std::size_t>& ranks) {
  constexpr std::size_t kShown = 8;
  std::string text;
  for (std::size_t i = 0; i < ranks.size() && i < kShown; ++i) {
    const bool last = i + 1 == ranks.size();
    text += fmt::format("{}{}", i == 0 ? "" : last ? " and " : ", ", ranks[i]);
  }
  if (ranks.size() > kShown) text += fmt::format(" and {} more", ranks.size() - kShown);
  return text;
}

}  // namespace

CpuMask::CpuMask(const std::vector<int>& cpus) {
  for (const int cpu : cpus) {
    const auto bit = static_cast<std::size_t>(cpu);
    words_.resize(std::max(words_.size(), bit / kWordBits + 1));
    words_[bit / kWordBits] |= 1UL << bit % kWordBits;
  }
}

bool CpuMask::apply() const {
  const auto* set = reinterpret_cast<const cpu_set_t*>(words_.data());
  return sched_setaffinity(0, words_.size() * sizeof(unsigned long), set) == 0;
}

void release_processors() {
  if (threads_are_bound()) CpuMask(allowed_cpus()).apply();
}

std::vector<std::vector<int>> share_processors(const std::vector<int>& cpus,
                                               i64 ranks,
                                               int threads) {
  const auto parts = static_cast<std::size_t>(ranks);
  if (cpus.size() / parts < static_cast<std::size_t>(threads)) return {};
  std::vector<std::vector<int>> shares;
  for (std::size_t rank = 0; rank < parts; ++rank) {
    shares.emplace_back(
        cpus.begin() + static_cast<std::ptrdiff_t>(cpus.size() * rank / parts),
        cpus.begin() + static_cast<std::ptrdiff_t>(cpus.size() * (rank + 1) / parts));
  }
  return shares;
}

// "most of:list": how many ranks fit there, of how many processors that the host has, and which.
std::string processors_of_rank() {
  std::vector<int> cpus;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &mask)) cpus.push_back(cpu);
    }
  } else {  // more CPUs than fit
    cpus = allowed_cpus();
  }
  // A place that OpenMP has bound this thread to is for one thread, however many CPUs it has.
  const std::size_t fit = threads_are_bound() ? 1 : cpus.size();
  return fmt::format("{} of {}:{}", fit, sysconf(_SC_NPROCESSORS_ONLN), list_text(cpus));
}

std::string crowded_text(const std::vector<std::string>& hosts,
                         const std::vector<std::string>& processors) {
  std::map<std::pair<std::string, std::string>, std::vector<std::size_t>> ranks_of;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    ranks_of[{hosts[rank], processors[rank]}].push_back(rank);
  }
  for (const auto& [place, ranks] : ranks_of) {
    const std::string& where = place.second;
    const std::size_t fit = std::strtoul(where.c_str(), nullptr, 10);
    const std::size_t of = std::strtoul(where.c_str() + where.find(" of ") + 4, nullptr, 10);
    if (ranks.size() <= fit || fit >= of) continue;
    const std::string binding = binding_text();
    return fmt::format(
        "ranks {} run on processor{} {} of a host that has {}, and wait for each other by turns: "
        "{}let what starts them give each of them processors of its own (mpirun --bind-to core, "
        "srun --cpu-bind=cores)",
        ranks_text(ranks),
        where.find_first_of(",-") == std::string::npos ? "" : "s",
        where.substr(where.find(':') + 1),
        of,
        binding.empty() ? "" : "unset " + binding + ", or ");
  }
  return {};
}

NamedProcessors named_processors() {
  const auto value = [](const char* name) {
    const char* found = std::getenv(name);
    return std::string_view(found == nullptr ? "" : found);
  };
  NamedProcessors named;
  if (!value("GOMP_CPU_AFFINITY").empty()) named.variables.emplace_back("GOMP_CPU_AFFINITY");
  // Elsewhere it names kinds of places: "cores".
  if (value("OMP_PLACES").find('{') != std::string_view::npos) {
    named.variables.emplace_back("OMP_PLACES");
  }
  named.binds = !value("OMP_PROC_BIND").empty();
  return named;
}

std::string binding_text() {
  std::string text;
  for (const char* name : kBindingVariables) {
    const char* value = std::getenv(name);
    if (value == nullptr) continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, written_plain(value));
  }
  return text;
}

}  // namespace tessera

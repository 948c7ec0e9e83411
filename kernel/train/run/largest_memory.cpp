#include "kernel/train/run/largest_memory.hpp"

#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

namespace {

// Every number, to be written and read in one order.
template <class Stats, class F>
void each_number(Stats& stats, F&& f) {
  for (auto& bytes : stats.bytes) f(bytes);
  for (auto& bytes : stats.peak) f(bytes);
  f(stats.total);
  f(stats.total_peak);
  f(stats.reserved);
  f(stats.touched);
  f(stats.host_blocks);
  f(stats.system_calls);
}

}  // namespace

std::optional<MemoryUse> largest_memory(const ControlPlane& plane,
                                        const MemoryStats& own,
                                        i64 step) {
  std::string text;
  each_number(own, [&](i64 number) { text += std::to_string(number) + " "; });
  const std::vector<std::string> all = plane.collect("memory", std::move(text));
  if (all.empty()) return std::nullopt;
  MemoryUse largest;
  largest.step = step;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    MemoryStats stats;
    std::istringstream in(all[rank]);
    each_number(stats, [&](i64& number) { in >> number; });
    if (rank > 0 && stats.total_peak <= largest.stats.total_peak) continue;
    largest.rank = static_cast<i64>(rank);
    largest.stats = stats;
  }
  return largest;
}

}  // namespace tessera

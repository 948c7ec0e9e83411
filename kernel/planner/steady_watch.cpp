#include "kernel/planner/steady_watch.hpp"

#include <algorithm>

namespace tessera {

void SteadyWatch::writes(const TensorArg& tensor) {
  if (steps_.empty() || steps_.back().empty() || !tensor) return;
  std::uint64_t& hash = steps_.back().back();
  hash = (hash ^ reinterpret_cast<std::uintptr_t>(tensor.address)) * 0x9E3779B97F4A7C15U + 1;
}

void SteadyWatch::launched(const Kernel& kernel, const void* args) {
  const auto* tensors = static_cast<const TensorArg*>(args);
  for (int i = kernel.tensors - kernel.outputs; i < kernel.tensors; ++i) writes(tensors[i]);
}

void SteadyWatch::started(const Collective& collective) {
  writes(collective.output);
  for (const Transfer& transfer : collective.receives) writes(transfer.tensor);
}

std::optional<std::size_t> SteadyWatch::cycle(const Repetition& stretch) const {
  for (std::size_t n = 1; 2 * n * stretch.period <= stretch.end; ++n) {
    const auto length = static_cast<std::ptrdiff_t>(n * stretch.period);
    const bool again = std::ranges::all_of(steps_, [&](const Addresses& step) {
      const auto end = step.begin() + static_cast<std::ptrdiff_t>(stretch.end);
      return std::equal(end - length, end, end - 2 * length);
    });
    if (again) return n;
  }
  return {};
}

}  // namespace tessera

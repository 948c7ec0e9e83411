#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <span>

namespace tessera {

/// numpy.sum of doubles: pairs of halves, of which each up to 128 values in eight lanes.
inline double numpy_sum(std::span<const double> values) {
  constexpr std::size_t kLanes = 8, kBlock = 128;
  if (values.size() < kLanes) return std::accumulate(values.begin(), values.end(), 0.0);
  if (values.size() > kBlock) {
    std::size_t half = values.size() / 2;
    half -= half % kLanes;
    return numpy_sum(values.first(half)) + numpy_sum(values.subspan(half));
  }
  std::array<double, kLanes> r{};
  std::copy_n(values.begin(), kLanes, r.begin());
  std::size_t at = kLanes;
  for (; at + kLanes <= values.size(); at += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) r[lane] += values[at + lane];
  }
  double sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
  for (; at < values.size(); ++at) sum += values[at];
  return sum;
}

}  // namespace tessera

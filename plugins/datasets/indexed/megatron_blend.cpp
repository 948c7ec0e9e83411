#include "megatron_blend.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "arrays.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

constexpr std::string_view kBlendName = "megblnd1";

// numpy.sum of doubles: pairs of halves, of which each up to 128 values in eight lanes.
double numpy_sum(std::span<const double> values) {
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

class Drawn {
 public:
  explicit Drawn(std::size_t sets) : taken(sets) {}
  void take(std::size_t set) {
    sets_.push_back(static_cast<u32>(set));
    ordinals_.push_back(static_cast<u32>(taken[set]++));
  }
  i64 size() const { return static_cast<i64>(sets_.size()); }
  std::string bytes() const { return join_arrays(kBlendName, sets_, ordinals_); }

  std::vector<i64> taken;

 private:
  std::vector<u32> sets_, ordinals_;
};

// The set that is furthest behind among those that are `open`; the first of equals.
template <class F>
std::size_t furthest_behind(const std::vector<double>& shares, const Drawn& drawn, const F& open) {
  const double due = std::max(static_cast<double>(drawn.size()), 1.0);
  double most = -std::numeric_limits<double>::infinity();
  std::size_t found = 0;
  for (std::size_t j = 0; j < shares.size(); ++j) {
    if (!open(j)) continue;
    const double behind = shares[j] * due - static_cast<double>(drawn.taken[j]);
    if (behind > most) {
      most = behind;
      found = j;
    }
  }
  return found;
}

}  // namespace

MegatronBlend::MegatronBlend(std::string_view bytes) {
  const bool right =
      view_arrays(bytes, kBlendName, sets_, ordinals_) && sets_.size() == ordinals_.size();
  require(right, "{} bytes that are no blend", bytes.size());
}

std::vector<double> normalized(const std::vector<double>& weights) {
  const double sum = numpy_sum(weights);
  std::vector<double> out;
  for (const double weight : weights) out.push_back(weight / sum);
  return out;
}

i64 blend_target(i64 samples, double share) {
  return static_cast<i64>(std::ceil(static_cast<double>(samples) * share));
}

i64 blend_request(i64 samples, double share) {
  constexpr double kSurplus = 0.005;
  const auto target = static_cast<double>(blend_target(samples, share));
  return static_cast<i64>(std::ceil(target * (1 + kSurplus)));
}

std::string build_blend(const std::vector<double>& shares,
                        const std::vector<i64>& sizes,
                        std::optional<i64> samples) {
  Drawn drawn(shares.size());
  const auto any = [](std::size_t) { return true; };
  while (!samples || drawn.size() < *samples) {
    const std::size_t set = furthest_behind(shares, drawn, any);
    if (drawn.taken[set] == sizes[set]) {
      if (!samples) break;
      fail("order = \"megatron\": a blend of {} samples draws more from set {} than its {}",
           *samples,
           set,
           sizes[set]);
    }
    drawn.take(set);
  }
  return drawn.bytes();
}

std::string build_exhaustive_blend(const std::vector<i64>& sizes) {
  const auto all = static_cast<double>(std::accumulate(sizes.begin(), sizes.end(), i64{0}));
  std::vector<double> shares;
  for (const i64 size : sizes) shares.push_back(static_cast<double>(size) / all);
  Drawn drawn(sizes.size());
  const auto open = [&](std::size_t set) { return drawn.taken[set] < sizes[set]; };
  while (static_cast<double>(drawn.size()) < all) drawn.take(furthest_behind(shares, drawn, open));
  return drawn.bytes();
}

}  // namespace tessera

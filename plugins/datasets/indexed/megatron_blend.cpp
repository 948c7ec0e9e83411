#include "megatron_blend.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "arrays.hpp"
#include "numpy_sum.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

constexpr std::string_view kBlendName = "megblnd1";

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
  out.reserve(weights.size());
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
  shares.reserve(sizes.size());
  for (const i64 size : sizes) shares.push_back(static_cast<double>(size) / all);
  Drawn drawn(sizes.size());
  const auto open = [&](std::size_t set) { return drawn.taken[set] < sizes[set]; };
  while (static_cast<double>(drawn.size()) < all) drawn.take(furthest_behind(shares, drawn, open));
  return drawn.bytes();
}

}  // namespace tessera

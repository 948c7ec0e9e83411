#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/types.hpp"

namespace tessera {

/// The arrays of Megatron-LM's BlendedDataset: which set gives each sample, and which of its own it
/// is. A view over bytes that build_blend made.
class MegatronBlend {
 public:
  /// Throws Error where the bytes are no blend.
  explicit MegatronBlend(std::string_view bytes);
  i64 size() const { return static_cast<i64>(sets_.size()); }
  std::size_t set(i64 sample) const { return sets_[static_cast<std::size_t>(sample)]; }
  i64 ordinal(i64 sample) const { return ordinals_[static_cast<std::size_t>(sample)]; }

 private:
  std::span<const u32> sets_, ordinals_;
};

/// Weights as there: divided by their sum, as numpy.sum adds.
std::vector<double> normalized(const std::vector<double>& weights);

/// Samples asked of a set of weight `share` for a blend of `samples`, without and with the surplus
/// of 0.5 %.
i64 blend_target(i64 samples, double share);
i64 blend_request(i64 samples, double share);

/// `shares` add up to 1; `sizes`: samples of each set. With `samples` so many are drawn; without,
/// as many as all sets give by their shares until one is used up. In FP64, as there (helpers.cpp).
/// Throws Error where a set has fewer than are drawn of it.
std::string build_blend(const std::vector<double>& shares,
                        const std::vector<i64>& sizes,
                        std::optional<i64> samples);

/// All samples of all sets, each set as fast as its size wants.
std::string build_exhaustive_blend(const std::vector<i64>& sizes);

}  // namespace tessera

#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "blend.hpp"
#include "cut.hpp"
#include "order.hpp"

namespace tessera {

/// The order "tessera": an epoch has each sample of the cuts once, permuted. A pure function of
/// ordinal and key, so a run starts at once at any step. Cuts without weights are one corpus; with
/// weights each has epochs of its own, as fast as the blend takes from it.
class EpochOrder final : public Order {
 public:
  /// `shuffle_key` none: in the order of the cuts.
  EpochOrder(std::vector<std::unique_ptr<Cut>> cuts,
             const std::vector<double>& weights,
             std::optional<u64> shuffle_key);
  i64 size() const override { return size_; }
  void find(i64 ordinal, Sample& sample) const override;

 private:
  i64 shuffled(i64 ordinal, i64 samples, u64 cut) const;

  std::vector<std::unique_ptr<Cut>> cuts_;
  std::vector<i64> starts_ = {0};  // samples of the cuts before each, and of all
  std::optional<u64> shuffle_key_;
  std::unique_ptr<Blend> blend_;
  i64 size_ = 0;
};

}  // namespace tessera

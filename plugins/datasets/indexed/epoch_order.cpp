#include "epoch_order.hpp"

#include <algorithm>
#include <utility>

#include "tessera/permutation.hpp"

namespace tessera {

EpochOrder::EpochOrder(std::vector<std::unique_ptr<Cut>> cuts,
                       const std::vector<double>& weights,
                       std::optional<u64> shuffle_key)
    : cuts_(std::move(cuts)), shuffle_key_(shuffle_key) {
  for (const auto& cut : cuts_) starts_.push_back(starts_.back() + cut->size());
  size_ = starts_.back();
  if (weights.empty()) return;
  blend_ = std::make_unique<Blend>(weights);
  if (shuffle_key_) return;
  // Without a shuffle no sample comes twice: the set ends where one of its cuts does.
  for (std::size_t j = 0; j < cuts_.size(); ++j) {
    const long double share = static_cast<long double>(blend_->parts()[j]) / blend_->round();
    const auto most = static_cast<i64>(static_cast<long double>(cuts_[j]->size() - 1) / share);
    size_ = std::min(size_, std::max<i64>(1, most));
  }
}

i64 EpochOrder::shuffled(i64 ordinal, i64 samples, u64 cut) const {
  const i64 epoch = ordinal / samples, place = ordinal % samples;
  if (!shuffle_key_) return place;
  constexpr u64 kSpread = 0x9E3779B97F4A7C15;  // cuts of a blend have orders of their own
  return Permutation(samples, *shuffle_key_ + cut * kSpread, static_cast<u64>(epoch))(place);
}

void EpochOrder::find(i64 ordinal, Sample& sample) const {
  if (blend_ != nullptr) {
    const Blend::Place place = blend_->at(ordinal);
    const Cut& cut = *cuts_[place.set];
    return cut.find(shuffled(place.ordinal, cut.size(), place.set), sample);
  }
  const i64 of_all = shuffled(ordinal, size_, 0);
  const auto at =
      static_cast<std::size_t>(std::ranges::upper_bound(starts_, of_all) - starts_.begin() - 1);
  cuts_[at]->find(of_all - starts_[at], sample);
}

}  // namespace tessera

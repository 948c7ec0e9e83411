#include "megatron_order.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "kept_name.hpp"
#include "tessera/error.hpp"

namespace tessera {

MegatronOrder::MegatronOrder(std::vector<Part> parts,
                             const std::vector<double>& weights,
                             std::optional<i64> samples,
                             const std::string& keep_in,
                             const MakeCut& make_cut) {
  const bool alone = parts.size() == 1 && weights.empty();
  const std::vector<double> shares = normalized(weights);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::optional<i64> request;
    if (samples && alone) request = *samples;
    if (samples && !weights.empty()) request = blend_request(*samples, shares[i]);
    cuts_.push_back(make_cut(std::move(parts[i]), request));
  }
  if (alone) {
    size_ = cuts_[0]->size();
  } else {
    blend(shares, samples, keep_in);
  }
  if (samples && size_ < *samples) {
    fail_config(
        "data.path: without weights, order = \"megatron\" reads each file once, {} samples, and "
        "the run has {} (run.steps · batch.global); give weights or fewer steps",
        size_,
        *samples);
  }
}

void MegatronOrder::blend(const std::vector<double>& shares,
                          const std::optional<i64>& samples,
                          const std::string& keep_in) {
  std::vector<i64> sizes;
  for (const auto& cut : cuts_) sizes.push_back(cut->size());
  // A set without weights has each sample once.
  const bool exhaustive = shares.empty() && !samples;
  std::vector<double> drawn_by = shares;
  std::optional<i64> wanted = samples;
  if (shares.empty()) {
    drawn_by.assign(sizes.begin(), sizes.end());
    const i64 all = std::accumulate(sizes.begin(), sizes.end(), i64{0});
    if (samples) wanted = std::min(*samples, all);
  } else if (samples) {
    wanted = 0;
    for (const double share : shares) *wanted += blend_target(*samples, share);
  }
  drawn_by = normalized(drawn_by);  // there the weights of a blend are divided a second time
  std::string decides = fmt::format("{} {}", exhaustive, wanted.value_or(-1));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    decides += fmt::format(" {} {}", drawn_by[i], sizes[i]);
  }
  kept_blend_ = std::make_unique<KeptBytes>(
      keep_in,
      kept_name("blend", decides),
      [&] {
        return exhaustive ? build_exhaustive_blend(sizes) : build_blend(drawn_by, sizes, wanted);
      },
      reads_as<MegatronBlend>);
  blend_ = std::make_unique<MegatronBlend>(kept_blend_->bytes());
  size_ = blend_->size();
}

void MegatronOrder::find(i64 ordinal, Sample& sample) const {
  require(ordinal < size_,
          "order = \"megatron\" has {} samples, sample {} was asked for",
          size_,
          ordinal);
  if (blend_ == nullptr) return cuts_[0]->find(ordinal, sample);
  const std::size_t cut = blend_->set(ordinal);
  require(cut < cuts_.size(), "a blend that was kept is damaged");
  cuts_[cut]->find(blend_->ordinal(ordinal), sample);
}

}  // namespace tessera

#pragma once
#include "dispatcher_config.hpp"
#include "expert_ranks.hpp"
#include "tessera/dispatcher.hpp"

namespace tessera {

/// Every rank sends each of its rows to the ranks of the row's experts, in parts as unequal as the
/// routing is, and gets the results back, by one exchange each way. Rows arrive where they belong,
/// expert after expert. A row's weight travels with it.
class AllToAllDispatcher final : public TokenDispatcher {
 public:
  using Config = DispatcherConfig;
  AllToAllDispatcher(const Config& config, BuildContext& build);

  ExpertRows preprocess(Context& cx,
                        Bundle& bundle,
                        const Tensor& x,
                        const Routing& routing) const override;
  std::vector<HostSlot> reads() const override;
  Shapes shapes() const override { return alone() ? Shapes::fixed : Shapes::dynamic; }
  ExpertRows dispatch(Context& cx, Bundle& bundle, const ExpertRows& rows) const override;
  Tensor counts(const Bundle& bundle) const override { return bundle[counts_]; }
  Tensor combine(Context& cx, Bundle& bundle, const Tensor& y) const override;
  Tensor unpermute(Context& cx, Bundle& bundle, const Tensor& y) const override;

 private:
  bool alone() const { return ranks_->size() == 1; }

  std::shared_ptr<const ExpertRanks> ranks_;
  i64 top_k_;
  Slot order_, inverse_, counts_;
  HostSlot splits_;  ///< [ranks, experts]: rows of each rank for each expert
};

}  // namespace tessera

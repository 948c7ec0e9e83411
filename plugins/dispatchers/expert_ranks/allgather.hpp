#pragma once
#include "dispatcher_config.hpp"
#include "expert_ranks.hpp"
#include "tessera/dispatcher.hpp"

namespace tessera {

/// Every rank gets all rows of the group and computes those of its experts; results are summed by a
/// reduce-scatter. Simple, and cheap where few ranks share the experts or top_k is large.
class AllGatherDispatcher final : public TokenDispatcher {
 public:
  using Config = DispatcherConfig;
  AllGatherDispatcher(const Config& config, BuildContext& build);

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
  bool alone() const { return ranks_.size() == 1; }
  /// Of the sorted choices of all ranks, those of this rank's experts.
  Tensor own_choices(const Bundle& bundle) const;

  ExpertRanks ranks_;
  i64 top_k_;
  Slot order_, counts_;
  HostSlot totals_;  ///< choices of each expert, over the group
};

}  // namespace tessera

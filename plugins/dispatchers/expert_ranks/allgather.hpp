#pragma once
#include "base.hpp"

namespace tessera {

/// Every rank gets all rows of the group and computes those of its experts; results are summed by a
/// reduce-scatter. Simple, and cheap where few ranks share the experts or top_k is large.
class AllGatherDispatcher final : public ExpertDispatcher {
 public:
  AllGatherDispatcher(const Config& config, BuildContext& build)
      : ExpertDispatcher(config, build, "totals") {}

  ExpertRows do_preprocess(Context& cx,
                           Bundle& bundle,
                           const Tensor& x,
                           const Routing& routing) const override;
  ExpertRows do_dispatch(Context& cx,
                         Bundle& bundle,
                         const ExpertRows& rows,
                         const Meanwhile& meanwhile) const override;
  Tensor do_combine(Context& cx,
                    Bundle& bundle,
                    const Tensor& y,
                    const Meanwhile& meanwhile) const override;
  Tensor do_unpermute(Context& cx, Bundle& bundle, const Tensor& y) const override;

 private:
  /// The sorted choices of all ranks that are for this rank's experts.
  Tensor own_choices(const Bundle& bundle) const;
};

}  // namespace tessera

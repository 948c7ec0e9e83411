#pragma once
#include "base.hpp"

namespace tessera {

/// Every rank sends each of its rows to the ranks of the row's experts, in parts as unequal as the
/// routing is, and gets the results back, by one exchange each way. Rows arrive where they belong,
/// expert after expert. A row's weight travels with it.
class AllToAllDispatcher final : public ExpertDispatcher {
 public:
  AllToAllDispatcher(const Config& config, BuildContext& build)
      : ExpertDispatcher(config, build, "splits") {}

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
  /// Tells every rank how many rows each has for each expert; `counts` become sums.
  void exchange_counts(Context& cx,
                       Bundle& bundle,
                       const Tensor& counts,
                       const Routing& routing) const;
  /// [ranks, experts]: how many rows each rank has for each expert; none where all are equal.
  std::span<const i64> counts_read(const Bundle& bundle) const;
};

}  // namespace tessera

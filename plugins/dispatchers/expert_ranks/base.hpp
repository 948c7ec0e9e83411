#pragma once
#include "dispatcher_config.hpp"
#include "expert_ranks.hpp"
#include "tessera/dispatcher.hpp"

namespace tessera {

/// What dispatchers among the ranks of a layer's experts have in common. Shapes depend on the
/// routing, and the host reads it back, unless there is one rank or every expert has fixed places.
class ExpertDispatcher : public TokenDispatcher {
 public:
  using Config = DispatcherConfig;

  std::vector<HostSlot> reads() const override {
    return shapes() == Shapes::fixed ? std::vector<HostSlot>{} : std::vector{read_};
  }
  Shapes shapes() const override {
    return alone() || places_ > 0 ? Shapes::fixed : Shapes::dynamic;
  }
  Tensor counts(const Bundle& bundle) const override { return bundle[counts_]; }

 protected:
  /// `read`: the name of what the host reads.
  ExpertDispatcher(const Config& config, BuildContext& build, std::string_view read)
      : ranks_(std::make_shared<ExpertRanks>(build, config.experts)),
        top_k_(config.top_k),
        places_(alone() ? 0 : config.rows_per_expert),
        order_(build.slot("moe.order")),
        inverse_(build.slot("moe.inverse")),
        counts_(build.slot("moe.counts")),
        read_(build.host_slot(fmt::format("{}.{}", build.scope(), read))) {}

  bool alone() const { return ranks_->size() == 1; }

  std::shared_ptr<const ExpertRanks> ranks_;
  i64 top_k_;
  i64 places_;  ///< of each rank for each expert; 0: as many as there are rows
  Slot order_, inverse_, counts_;
  HostSlot read_;
};

}  // namespace tessera

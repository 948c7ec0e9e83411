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

  std::vector<HostSlot> do_reads() const override {
    return shapes() == Shapes::fixed ? std::vector<HostSlot>{} : std::vector{read_};
  }
  Shapes do_shapes() const override {
    return alone() || places_ > 0 ? Shapes::fixed : Shapes::dynamic;
  }
  Tensor do_counts(const Bundle& bundle) const override { return bundle[counts_]; }

 protected:
  /// `read`: the name of what the host reads.
  ExpertDispatcher(const Config& config, BuildContext& build, std::string_view read)
      : ranks_(std::make_shared<ExpertRanks>(build, config.experts)),
        top_k_(config.top_k),
        places_(alone() ? 0 : config.rows_per_expert),
        most_(alone() ? config.rows_per_expert * config.experts : 0),
        order_(build.slot("moe.order")),
        inverse_(build.slot("moe.inverse")),
        counts_(build.slot("moe.counts")),
        read_(build.host_slot(fmt::format("{}.{}", build.scope(), read))) {}

  bool alone() const { return ranks_->size() == 1; }
  /// The choices by expert that experts may take: dropped ones stand last.
  Tensor held(const Tensor& order) const {
    return most_ > 0 && most_ < order.dim(0) ? order.slice(0, 0, most_) : order;
  }
  /// How many of `choices`, from the rows of so many ranks, a dry run assumes each expert to take.
  std::vector<i64> assumed(const Context& cx, i64 choices, const Routing& routing, i64 ranks) const;

  std::shared_ptr<const ExpertRanks> ranks_;
  i64 top_k_;
  i64 places_;  ///< of each rank for each expert; 0: as many as there are rows
  i64 most_;    ///< rows of all experts, on one rank; 0: as many as there are choices
  Slot order_, inverse_, counts_;
  HostSlot read_;
};

}  // namespace tessera

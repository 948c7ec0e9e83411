// The simplest way to bring rows to their experts: every rank gets all rows of the ranks that share
// the experts, takes those of its own, and the results are summed where the rows came from.
#include <fmt/format.h>
#include <tessera/collectives.hpp>
#include <tessera/dispatcher.hpp>
#include <tessera/error.hpp>
#include <tessera/moe_ops.hpp>
#include <tessera/plugin.hpp>

#include <numeric>
#include <utility>

namespace {

using namespace tessera;

class GatherAll final : public TokenDispatcher {
 public:
  struct Config {
    i64 experts = 0, top_k = 0, rows_per_expert = 0;
    static void describe(Schema<Config>& s) {
      s.field("experts", &Config::experts, "experts of the layer")
          .given()
          .at_least(1)
          .at_most(kMostExperts);
      s.field("top_k", &Config::top_k, "choices of a token")
          .given()
          .at_least(1)
          .at_most(kMostExperts);
      s.field("rows_per_expert", &Config::rows_per_expert, "places for rows; 0: as many as rows")
          .given()
          .at_least(0)
          .at_most(kMostElements);
    }
  };

  GatherAll(const Config& config, BuildContext& build)
      : config_(config),
        name_(build.scope()),
        group_(build.mesh().find_experts()),
        ranks_(build.mesh().size(Axis::expert) * build.mesh().size(Axis::expert_tensor)),
        local_(config.experts / build.mesh().size(Axis::expert)),
        first_(local_ * build.mesh().coordinate(Axis::expert)),
        own_(build.slot("gather_all.own")),
        inverse_(build.slot("gather_all.inverse")),
        counts_(build.slot("gather_all.counts")),
        totals_(build.host_slot(name_ + ".totals")) {}

  ExpertRows do_preprocess(Context& cx,
                           Bundle& bundle,
                           const Tensor& x,
                           const Routing& routing) const override {
    Tensor experts = routing.experts;  // i32 [rows of all ranks, top_k], after this
    if (ranks_ > 1) {
      experts = cx.empty({experts.dim(0) * ranks_, config_.top_k}, experts.dtype());
      group().all_gather(*cx.stream, routing.experts, experts, name_).wait(*cx.stream);
    }
    const Tensor totals = ops::expert_counts(cx, experts, config_.experts);
    bundle[own_] = ops::sort_by_expert(cx, experts, config_.experts).order;
    bundle[counts_] = totals.slice(0, first_, local_);
    if (config_.rows_per_expert > 0) {
      // So many places of each rank for each expert, filled or not.
      const i64 places = config_.rows_per_expert * ranks_;
      bundle[own_] = ops::pad_order(cx, bundle[own_], totals, places)
                         .slice(0, first_ * places, local_ * places);
      ops::run(cx, FillArgs{bundle[counts_].arg(), static_cast<double>(places)});
    } else if (ranks_ > 1) {
      // The host has to know how many rows there are; a dry run goes on with equal loads.
      std::vector<i64> assumed(static_cast<std::size_t>(config_.experts),
                               experts.elements() / config_.experts);
      cx.device->assume(totals, assumed.data());
      bundle.read_back(cx, totals_, totals);
    }
    const i64 choices = experts.elements();
    if (fixed())
      bundle[inverse_] = ops::invert_order(cx, bundle[own_], choices).view(experts.shape());
    return {x, routing.weights};
  }

  std::vector<HostSlot> do_reads() const override {
    return fixed() ? std::vector<HostSlot>() : std::vector<HostSlot>{totals_};
  }
  Shapes do_shapes() const override { return fixed() ? Shapes::fixed : Shapes::dynamic; }

  ExpertRows do_dispatch(Context& cx,
                         Bundle& bundle,
                         const ExpertRows& rows,
                         const Meanwhile& meanwhile) const override {
    if (!fixed()) take_own(cx, bundle);
    const Tensor x = gathered(cx, rows.x), weights = gathered(cx, rows.weights);
    meanwhile();
    const Tensor& own = bundle[own_];
    const Tensor by_choice = ops::reshape(cx, weights, {weights.elements(), 1});
    return {ops::permute_rows(cx, x, own, config_.top_k),
            ops::reshape(cx, ops::permute_rows(cx, by_choice, own, 1), {own.dim(0)})};
  }

  Tensor do_counts(const Bundle& bundle) const override { return bundle[counts_]; }

  Tensor do_combine(Context& cx,
                    Bundle& bundle,
                    const Tensor& y,
                    const Meanwhile& meanwhile) const override {
    meanwhile();
    const Tensor sums = ops::unpermute_rows(cx, y, bundle[inverse_], bundle[own_]);
    if (ranks_ == 1) return sums;
    return collectives::reduce_scatter_rows(cx, sums, group(), name_);
  }

  Tensor do_unpermute(Context&, Bundle& bundle, const Tensor& y) const override {
    for (const Slot slot : {own_, inverse_, counts_}) bundle[slot] = {};
    return y;
  }

 private:
  bool fixed() const { return ranks_ == 1 || config_.rows_per_expert > 0; }

  // During `config check` there are no communicators: only an exchange asks for them.
  ProcessGroup& group() const {
    require(group_ != nullptr, "{}: this mesh has no communicators", name_);
    return *group_;
  }
  Tensor gathered(Context& cx, const Tensor& rows) const {
    return ranks_ == 1 ? rows : collectives::gather_rows(cx, rows, group(), name_);
  }

  // Keeps those of the sorted choices of all ranks that are for this rank's experts.
  void take_own(Context& cx, Bundle& bundle) const {
    const auto begin = bundle[totals_].begin();
    const auto own = begin + first_;
    const i64 before = std::accumulate(begin, own, i64{0});
    const i64 choices = bundle[own_].elements();
    bundle[own_] = bundle[own_].slice(0, before, std::accumulate(own, own + local_, i64{0}));
    bundle[inverse_] =
        ops::invert_order(cx, bundle[own_], choices).view({choices / config_.top_k, config_.top_k});
  }

  Config config_;
  std::string name_;     // of the call site, in errors
  ProcessGroup* group_;  // nullptr: the mesh has no communicators
  i64 ranks_;            // that share the experts
  i64 local_, first_;    // experts of this rank
  Slot own_, inverse_, counts_;
  HostSlot totals_;
};

}  // namespace

TESSERA_PLUGIN(gather_all, "0.1.0", "A dispatcher that gathers all rows") {
  registrar.add<TokenDispatcher, GatherAll>("gather_all", "every rank gets all rows");
}

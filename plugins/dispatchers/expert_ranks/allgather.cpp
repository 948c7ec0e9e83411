#include "allgather.hpp"

#include <numeric>
#include <utility>

#include "tessera/collectives.hpp"
#include "tessera/moe_ops.hpp"

namespace tessera {

ExpertRows AllGatherDispatcher::do_preprocess(Context& cx,
                                              Bundle& bundle,
                                              const Tensor& x,
                                              const Routing& routing) const {
  Tensor experts = routing.experts;
  if (!alone()) {
    const i64 rows = experts.dim(0) * ranks_->size();
    experts = cx.empty({rows, top_k_}, routing.experts.dtype());
    ranks_->group()
        .all_gather(*cx.stream, routing.experts, experts, ranks_->name())
        .wait(*cx.stream);
  }
  Tensor order = ops::sort_by_expert(cx, experts, ranks_->experts()).order;
  const Tensor totals = ops::expert_counts(cx, experts, ranks_->experts());
  bundle[counts_] = totals.slice(0, ranks_->first(), ranks_->local());
  if (places_ > 0) {
    const i64 places = places_ * ranks_->size();
    order = ops::pad_order(cx, order, totals, places)
                .slice(0, ranks_->first() * places, ranks_->local() * places);
    bundle[inverse_] = ops::invert_order(cx, order, experts.elements()).view(experts.shape());
    ops::run(cx, FillArgs{bundle[counts_].arg(), static_cast<double>(places)});
  } else if (!alone()) {
    cx.device->assume(totals, assumed(cx, experts.elements(), routing, ranks_->size()).data());
    bundle.read_back(cx, read_, totals);
  }
  bundle[order_] = order;
  return {x, routing.weights};
}

Tensor AllGatherDispatcher::own_choices(const Bundle& bundle) const {
  if (shapes() == Shapes::fixed) return held(bundle[order_]);
  const auto begin = bundle[read_].begin();
  const i64 before = std::accumulate(begin, begin + ranks_->first(), i64{0});
  const auto own = begin + ranks_->first();
  return bundle[order_].slice(0, before, std::accumulate(own, own + ranks_->local(), i64{0}));
}

ExpertRows AllGatherDispatcher::do_dispatch(Context& cx,
                                            Bundle& bundle,
                                            const ExpertRows& rows,
                                            const Meanwhile& meanwhile) const {
  Tensor x = rows.x, weights = rows.weights;
  if (!alone()) {
    x = collectives::gather_rows(cx, x, ranks_->group(), ranks_->name());
    weights = collectives::gather_rows(cx, weights, ranks_->group(), ranks_->name());
  }
  meanwhile();
  const Tensor own = own_choices(bundle);
  const Tensor by_choice = ops::reshape(cx, weights, {weights.elements(), 1});
  return {ops::permute_rows(cx, x, own, top_k_),
          ops::reshape(cx, ops::permute_rows(cx, by_choice, own, 1), {own.dim(0)})};
}

Tensor AllGatherDispatcher::do_combine(Context& cx,
                                       Bundle& bundle,
                                       const Tensor& y,
                                       const Meanwhile& meanwhile) const {
  const Tensor own = own_choices(bundle);
  Tensor inverse = std::exchange(bundle[inverse_], {});
  if (!inverse.defined()) {
    const i64 choices = bundle[order_].elements();
    inverse = ops::invert_order(cx, own, choices).view({choices / top_k_, top_k_});
  }
  meanwhile();
  Tensor sums = ops::unpermute_rows(cx, y, inverse, own);
  if (alone()) return sums;
  return collectives::reduce_scatter_rows(cx, sums, ranks_->group(), ranks_->name());
}

Tensor AllGatherDispatcher::do_unpermute(Context&, Bundle& bundle, const Tensor& y) const {
  bundle[order_] = {};
  bundle[counts_] = {};
  return y;
}

}  // namespace tessera

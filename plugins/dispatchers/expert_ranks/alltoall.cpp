#include "alltoall.hpp"

#include <span>
#include <utility>

#include "tessera/error.hpp"
#include "tessera/moe_ops.hpp"

namespace tessera {

namespace {

using Parts = std::vector<ProcessGroup::Rows>;

// Who sends how many rows to whom, for one microbatch. Rows to send are in the order of their
// experts; rows received in that of local experts, and in group order for each.
class Splits {
 public:
  /// `counts` [ranks, experts]: rows that each rank has for each expert. `choices`: of this rank,
  /// those that the router dropped included, which stay here.
  Splits(std::shared_ptr<const ExpertRanks> ranks, std::span<const i64> counts, i64 choices)
      : ranks_(std::move(ranks)), choices_(choices) {
    const i64 members = ranks_->size(), experts = ranks_->experts(), local = ranks_->local();
    require(static_cast<i64>(counts.size()) == members * experts,
            "{}: {} splits of {} ranks and {} experts",
            ranks_->name(),
            counts.size(),
            members,
            experts);
    const auto count = [&](i64 source, i64 expert) {
      return counts[static_cast<std::size_t>(source * experts + expert)];
    };
    to_expert_.reserve(static_cast<std::size_t>(experts));
    for (i64 expert = 0; expert < experts; ++expert) {
      to_expert_.push_back({sent_, count(ranks_->index(), expert)});
      sent_ += to_expert_.back().count;
    }
    from_.resize(static_cast<std::size_t>(members * local));
    for (i64 e = 0; e < local; ++e) {
      for (i64 source = 0; source < members; ++source) {
        Range& range = from_[static_cast<std::size_t>(source * local + e)];
        range = {received_, count(source, ranks_->first() + e)};
        received_ += range.count;
      }
    }
  }

  const ExpertRanks& ranks() const { return *ranks_; }
  i64 choices() const { return choices_; }
  i64 sent() const { return sent_; }
  i64 received() const { return received_; }

  /// Adds the rows of each member's experts, to be sent or come back. `of(member)`: where they are.
  template <class Of>
  void add_by_member(Parts& parts, const Of& of) const {
    parts.reserve(parts.size() + static_cast<std::size_t>(ranks_->size() * ranks_->local()));
    for (int member = 0; member < ranks_->size(); ++member) {
      for (i64 e = 0; e < ranks_->local(); ++e) {
        const Range& range = to_expert_[static_cast<std::size_t>(ranks_->first(member) + e)];
        parts.push_back({member, &of(member), range.first, range.count});
      }
    }
  }
  /// Adds the rows at the experts that came from each member.
  void add_by_source(Parts& parts, const Tensor& rows) const {
    parts.reserve(parts.size() + from_.size());
    for (std::size_t i = 0; i < from_.size(); ++i) {
      const auto source = static_cast<int>(i / static_cast<std::size_t>(ranks_->local()));
      parts.push_back({source, &rows, from_[i].first, from_[i].count});
    }
  }

 private:
  struct Range {
    i64 first = 0, count = 0;
  };
  std::shared_ptr<const ExpertRanks> ranks_;
  std::vector<Range> to_expert_;  // by expert
  std::vector<Range> from_;       // by source and local expert
  i64 choices_, sent_ = 0, received_ = 0;
};
using SharedSplits = std::shared_ptr<const Splits>;

// `places` for each rank at each expert; 0: as many rows as `counts` says.
SharedSplits splits_of(const std::shared_ptr<const ExpertRanks>& ranks,
                       std::span<const i64> counts,
                       i64 places,
                       i64 choices) {
  std::vector<i64> equal;
  if (places > 0) {
    equal.assign(static_cast<std::size_t>(ranks->size() * ranks->experts()), places);
    counts = equal;
  }
  return std::make_shared<const Splits>(ranks, counts, choices);
}

Tensor rows_like(Context& cx, const Tensor& like, i64 rows) {
  Shape shape = like.shape();
  shape[0] = rows;
  return cx.empty(shape, like.dtype());
}

// Rows on their way, those of one part of an expert after those of another.
struct Arriving {
  std::vector<std::vector<Tensor>> rows;  // by part; one where nothing is summed
  Work work;
};

// Rows of this rank, in the order of their experts, to the ranks of these experts. Every rank of an
// expert gets all of its rows.
Arriving to_experts(Context& cx, const Splits& splits, const std::vector<Tensor>& rows) {
  Parts sends, receives;
  std::vector<Tensor> received;
  received.reserve(rows.size());  // parts refer to them
  for (const Tensor& of : rows) {
    received.push_back(rows_like(cx, of, splits.received()));
    splits.add_by_member(sends, [&of](int) -> const Tensor& { return of; });
    splits.add_by_source(receives, received.back());
  }
  const ExpertRanks& ranks = splits.ranks();
  Work work = ranks.group().exchange_rows(*cx.stream, sends, receives, ranks.name());
  return {{std::move(received)}, std::move(work)};
}

// And back: a row for each choice, zero where it was dropped. What the ranks of one expert return
// are parts, which `sum` adds in their order.
Arriving from_experts(Context& cx, const Splits& splits, const std::vector<Tensor>& rows) {
  const ExpertRanks& ranks = splits.ranks();
  Parts sends, receives;
  std::vector<std::vector<Tensor>> parts(static_cast<std::size_t>(ranks.parts()));
  for (std::vector<Tensor>& part : parts) part.reserve(rows.size());
  const i64 sent = splits.sent(), dropped = splits.choices() - sent;
  for (const Tensor& of : rows) {
    for (std::vector<Tensor>& part : parts) part.push_back(rows_like(cx, of, splits.choices()));
    splits.add_by_source(sends, of);
    splits.add_by_member(receives, [&](int member) -> const Tensor& {
      return parts[static_cast<std::size_t>(ranks.part(member))].back();
    });
    if (dropped == 0) continue;
    ops::run(cx, FillArgs{parts[0].back().slice(0, sent, dropped).arg(), 0});
  }
  Work work = ranks.group().exchange_rows(*cx.stream, sends, receives, ranks.name());
  return {std::move(parts), std::move(work)};
}

// Adds what arrived, in the memory of its first part. Waits where there are several parts.
std::vector<Tensor> sum(Context& cx, const Splits& splits, Arriving& arriving) {
  if (arriving.rows.size() > 1) arriving.work.wait(*cx.stream);
  const std::vector<Tensor>& sums = arriving.rows[0];
  for (std::size_t p = 1; p < arriving.rows.size(); ++p) {
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const Tensor into = sums[i].slice(0, 0, splits.sent());
      AddArgs add{into.arg(), arriving.rows[p][i].slice(0, 0, splits.sent()).arg(), into.arg()};
      ops::run(cx, add);
    }
  }
  return sums;
}

// A gradient that nothing downstream needs takes part in the exchange: peers wait for it.
Tensor defined(Context& cx, Tensor gradient, const Shape& shape, DType dtype) {
  if (gradient.defined()) return gradient;
  gradient = cx.empty(shape, dtype);
  ops::run(cx, FillArgs{gradient.arg(), 0});
  return gradient;
}

using Carry = Arriving (*)(Context&, const Splits&, const std::vector<Tensor>&);

// Carries rows forward one way, and gradients back the other; both are still under way. What runs
// meanwhile is recorded before, so that its backward pass runs while gradients are under way.
std::vector<Tensor> carried(Context& cx,
                            Bundle& bundle,
                            std::string_view operation,
                            const SharedSplits& splits,
                            const std::vector<Tensor>& rows,
                            Carry there,
                            Carry back,
                            const Meanwhile& meanwhile) {
  Arriving arriving = there(cx, *splits, rows);
  meanwhile();
  std::vector<Tensor> out = sum(cx, *splits, arriving);
  bundle.leave_under_way(std::move(arriving.work));
  if (!cx.recording()) return out;
  struct Form {
    Shape shape;
    DType dtype;
  };
  std::vector<Form> forms;
  std::vector<Tensor*> outputs;
  for (Tensor& tensor : out) {
    forms.push_back({tensor.shape(), tensor.dtype()});
    outputs.push_back(&tensor);
  }
  cx.tape->record(operation, rows, outputs, [splits, forms, back](Context& c, Gradients& g) {
    std::vector<Tensor> gradients;
    for (std::size_t i = 0; i < forms.size(); ++i) {
      gradients.push_back(
          defined(c, g.output(static_cast<int>(i)), forms[i].shape, forms[i].dtype));
    }
    Arriving returning = back(c, *splits, gradients);
    const std::vector<Tensor> returned = sum(c, *splits, returning);
    for (std::size_t i = 0; i < returned.size(); ++i) {
      const bool last = i + 1 == returned.size();
      g.input(static_cast<int>(i),
              returned[i],
              last ? std::move(returning.work) : returning.work.share());
    }
  });
  return out;
}

}  // namespace

std::span<const i64> AllToAllDispatcher::counts_read(const Bundle& bundle) const {
  return places_ > 0 ? std::span<const i64>() : bundle[read_];
}

ExpertRows AllToAllDispatcher::do_preprocess(Context& cx,
                                             Bundle& bundle,
                                             const Tensor& x,
                                             const Routing& routing) const {
  const ExpertRanks& ranks = *ranks_;
  const i64 choices = routing.experts.elements();
  const ops::ExpertOrder sorted = ops::sort_by_expert(cx, routing.experts, ranks.experts());
  Tensor counts = ops::expert_counts(cx, routing.experts, ranks.experts());
  Tensor order = sorted.order, inverse = sorted.inverse;
  if (places_ > 0) {
    order = ops::pad_order(cx, sorted.order, counts, places_);
    inverse = ops::invert_order(cx, order, choices).view(routing.experts.shape());
    counts = cx.empty({ranks.local()}, DType::i64);
    ops::run(cx, FillArgs{counts.arg(), static_cast<double>(places_ * ranks.size())});
    bundle[counts_] = counts;
  } else {
    if (!alone()) exchange_counts(cx, bundle, counts, routing);
    order = held(order);
    bundle[counts_] = counts.slice(0, ranks.first(), ranks.local());
  }
  bundle[order_] = order;
  bundle[inverse_] = inverse;
  const Tensor by_choice = ops::reshape(cx, routing.weights, {choices, 1});
  const Tensor weights = ops::permute_rows(cx, by_choice, order, 1, inverse.view({choices, 1}));
  return {ops::permute_rows(cx, x, order, top_k_, inverse),
          ops::reshape(cx, weights, {order.elements()})};
}

void AllToAllDispatcher::exchange_counts(Context& cx,
                                         Bundle& bundle,
                                         const Tensor& counts,
                                         const Routing& routing) const {
  const ExpertRanks& ranks = *ranks_;
  const Tensor all = cx.empty({ranks.size(), ranks.experts()}, DType::i64);
  ranks.group().all_gather(*cx.stream, counts, all, ranks.name()).wait(*cx.stream);
  const std::vector<i64> of_one = assumed(cx, routing.experts.elements(), routing, 1);
  std::vector<i64> of_all;
  of_all.reserve(static_cast<std::size_t>(all.elements()));
  for (int rank = 0; rank < ranks.size(); ++rank) {
    of_all.insert(of_all.end(), of_one.begin(), of_one.end());
  }
  cx.device->assume(all, of_all.data());
  bundle.read_back(cx, read_, all);
  ranks.group().all_reduce(*cx.stream, counts, ReduceOp::sum, ranks.name()).wait(*cx.stream);
}

ExpertRows AllToAllDispatcher::do_dispatch(Context& cx,
                                           Bundle& bundle,
                                           const ExpertRows& rows,
                                           const Meanwhile& meanwhile) const {
  if (alone()) {
    meanwhile();
    return rows;
  }
  const SharedSplits splits =
      splits_of(ranks_, counts_read(bundle), places_, bundle[order_].elements());
  require(splits->sent() <= rows.x.dim(0) && rows.x.dim(0) == splits->choices(),
          "{}: {} rows to send, and the splits of this rank add up to {} of {} choices",
          ranks_->name(),
          rows.x.dim(0),
          splits->sent(),
          splits->choices());
  const std::vector<Tensor> arrived = carried(cx,
                                              bundle,
                                              "moe_dispatch",
                                              splits,
                                              {rows.x, rows.weights},
                                              &to_experts,
                                              &from_experts,
                                              meanwhile);
  return {arrived[0], arrived[1]};
}

Tensor AllToAllDispatcher::do_combine(Context& cx,
                                      Bundle& bundle,
                                      const Tensor& y,
                                      const Meanwhile& meanwhile) const {
  if (alone()) {
    meanwhile();
    return y;
  }
  const SharedSplits splits =
      splits_of(ranks_, counts_read(bundle), places_, bundle[order_].elements());
  require(y.dim(0) == splits->received(),
          "{}: {} results to send back, and the splits of all ranks to this one add up to {}",
          ranks_->name(),
          y.dim(0),
          splits->received());
  return carried(cx, bundle, "moe_combine", splits, {y}, &from_experts, &to_experts, meanwhile)[0];
}

Tensor AllToAllDispatcher::do_unpermute(Context& cx, Bundle& bundle, const Tensor& y) const {
  const Tensor order = std::exchange(bundle[order_], {});
  const Tensor inverse = std::exchange(bundle[inverse_], {});
  bundle[counts_] = {};
  return ops::unpermute_rows(cx, y, inverse, order);
}

}  // namespace tessera

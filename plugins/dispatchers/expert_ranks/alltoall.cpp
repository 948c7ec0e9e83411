#include "alltoall.hpp"

#include <array>
#include <functional>
#include <utility>

#include "tessera/error.hpp"
#include "tessera/moe_ops.hpp"

namespace tessera {

namespace {

using Parts = std::vector<ProcessGroup::Part>;

// Who sends how many rows to whom, for one microbatch. Rows to send are in the order of their
// experts; rows received in that of local experts, and in group order for each.
class Splits {
 public:
  /// `choices`: of this rank, those that the router dropped included, which stay here.
  Splits(std::shared_ptr<const ExpertRanks> ranks, std::vector<i64> counts, i64 choices)
      : ranks_(std::move(ranks)), counts_(std::move(counts)), choices_(choices) {
    require(static_cast<i64>(counts_.size()) == ranks_->size() * ranks_->experts(),
            "{}: {} splits of {} ranks and {} experts",
            ranks_->name(),
            counts_.size(),
            ranks_->size(),
            ranks_->experts());
  }

  const ExpertRanks& ranks() const { return *ranks_; }
  i64 choices() const { return choices_; }
  i64 sent() const {
    i64 rows = 0;
    for (i64 expert = 0; expert < ranks_->experts(); ++expert) {
      rows += count(ranks_->index(), expert);
    }
    return rows;
  }
  i64 received() const {
    i64 rows = 0;
    for (int source = 0; source < ranks_->size(); ++source) {
      for (i64 e = 0; e < ranks_->local(); ++e) rows += count(source, ranks_->first() + e);
    }
    return rows;
  }

  /// Of rows to send, or results that come back, those of each member's experts. `of`: where they
  /// are for a member.
  void add_by_member(Parts& parts, const std::function<const Tensor&(int member)>& of) const {
    std::vector<i64> begin(static_cast<std::size_t>(ranks_->experts()) + 1, 0);
    for (i64 e = 0; e < ranks_->experts(); ++e) {
      begin[static_cast<std::size_t>(e) + 1] =
          begin[static_cast<std::size_t>(e)] + count(ranks_->index(), e);
    }
    for (int member = 0; member < ranks_->size(); ++member) {
      for (i64 e = 0; e < ranks_->local(); ++e) {
        const i64 expert = ranks_->first(member) + e;
        parts.push_back(
            {member,
             of(member).slice(
                 0, begin[static_cast<std::size_t>(expert)], count(ranks_->index(), expert))});
      }
    }
  }
  /// Of rows at the experts, those that came from each member.
  void add_by_source(Parts& parts, const Tensor& rows) const {
    std::vector<Parts> by_source(static_cast<std::size_t>(ranks_->size()));
    i64 begin = 0;
    for (i64 e = 0; e < ranks_->local(); ++e) {
      for (int source = 0; source < ranks_->size(); ++source) {
        const i64 length = count(source, ranks_->first() + e);
        by_source[static_cast<std::size_t>(source)].push_back(
            {source, rows.slice(0, begin, length)});
        begin += length;
      }
    }
    for (const Parts& of : by_source) parts.insert(parts.end(), of.begin(), of.end());
  }

 private:
  i64 count(int source, i64 expert) const {
    return counts_[static_cast<std::size_t>(source * ranks_->experts() + expert)];
  }

  std::shared_ptr<const ExpertRanks> ranks_;
  std::vector<i64> counts_;
  i64 choices_;
};
using SharedSplits = std::shared_ptr<const Splits>;

Tensor rows_like(Context& cx, const Tensor& like, i64 rows) {
  Shape shape = like.shape();
  shape[0] = rows;
  return cx.empty(shape, like.dtype());
}

// Rows of this rank, in the order of their experts, to the ranks of these experts. Every rank of an
// expert gets all of its rows.
std::vector<Tensor> to_experts(Context& cx, const Splits& splits, const std::vector<Tensor>& rows) {
  Parts sends, receives;
  std::vector<Tensor> received;
  for (const Tensor& of : rows) {
    received.push_back(rows_like(cx, of, splits.received()));
    splits.add_by_member(sends, [&](int) -> const Tensor& { return of; });
    splits.add_by_source(receives, received.back());
  }
  const ExpertRanks& ranks = splits.ranks();
  ranks.group().exchange(*cx.stream, sends, receives, ranks.name()).wait(*cx.stream);
  return received;
}

// And back: a row for each choice, zero where it was dropped. What the ranks of one expert return
// are parts, which are added in their order.
std::vector<Tensor> from_experts(Context& cx,
                                 const Splits& splits,
                                 const std::vector<Tensor>& rows) {
  const ExpertRanks& ranks = splits.ranks();
  Parts sends, receives;
  std::vector<std::vector<Tensor>> returned;  // by part
  for (const Tensor& of : rows) {
    std::vector<Tensor>& parts = returned.emplace_back();
    for (i64 p = 0; p < ranks.parts(); ++p) parts.push_back(rows_like(cx, of, splits.choices()));
    splits.add_by_source(sends, of);
    splits.add_by_member(receives, [&](int member) -> const Tensor& {
      return parts[static_cast<std::size_t>(ranks.part(member))];
    });
  }
  ranks.group().exchange(*cx.stream, sends, receives, ranks.name()).wait(*cx.stream);
  std::vector<Tensor> sums;
  for (const std::vector<Tensor>& parts : returned) {
    const i64 sent = splits.sent(), dropped = splits.choices() - sent;
    const Tensor sum = parts[0].slice(0, 0, sent);
    for (std::size_t p = 1; p < parts.size(); ++p) {
      AddArgs add{sum.arg(), parts[p].slice(0, 0, sent).arg(), sum.arg()};
      ops::run(cx, add);
    }
    if (dropped > 0) {
      FillArgs zero{parts[0].slice(0, sent, dropped).arg(), 0};
      ops::run(cx, zero);
    }
    sums.push_back(parts[0]);
  }
  return sums;
}

// A gradient that nothing downstream needs takes part in the exchange: peers wait for it.
Tensor defined(Context& cx, Tensor gradient, const Shape& shape, DType dtype) {
  if (gradient.defined()) return gradient;
  gradient = cx.empty(shape, dtype);
  FillArgs zero{gradient.arg(), 0};
  ops::run(cx, zero);
  return gradient;
}

using Carry = std::vector<Tensor> (*)(Context&, const Splits&, const std::vector<Tensor>&);

// Carries rows forward one way, and gradients back the other.
std::vector<Tensor> carried(Context& cx,
                            std::string_view operation,
                            const SharedSplits& splits,
                            const std::vector<Tensor>& rows,
                            Carry there,
                            Carry back) {
  std::vector<Tensor> out = there(cx, *splits, rows);
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
    const std::vector<Tensor> returned = back(c, *splits, gradients);
    for (std::size_t i = 0; i < returned.size(); ++i) g.input(static_cast<int>(i), returned[i]);
  });
  return out;
}

}  // namespace

AllToAllDispatcher::AllToAllDispatcher(const Config& config, BuildContext& build)
    : ranks_(std::make_shared<ExpertRanks>(build, config.experts)),
      top_k_(config.top_k),
      order_(build.slot("moe.order")),
      inverse_(build.slot("moe.inverse")),
      counts_(build.slot("moe.counts")),
      splits_(build.host_slot(build.scope() + ".splits")) {}

std::vector<HostSlot> AllToAllDispatcher::reads() const {
  return alone() ? std::vector<HostSlot>{} : std::vector{splits_};
}

ExpertRows AllToAllDispatcher::preprocess(Context& cx,
                                          Bundle& bundle,
                                          const Tensor& x,
                                          const Routing& routing) const {
  const ExpertRanks& ranks = *ranks_;
  const i64 choices = routing.experts.elements();
  const ops::ExpertOrder sorted = ops::sort_by_expert(cx, routing.experts, ranks.experts());
  bundle[order_] = sorted.order;
  bundle[inverse_] = sorted.inverse;
  const Tensor counts = ops::expert_counts(cx, routing.experts, ranks.experts());
  if (!alone()) {
    const Tensor all = cx.empty({ranks.size(), ranks.experts()}, DType::i64);
    ranks.group().all_gather(*cx.stream, counts, all, ranks.name()).wait(*cx.stream);
    std::vector<i64> assumed;
    for (int rank = 0; rank < ranks.size(); ++rank) {
      for (const i64 count : ranks.balanced(choices)) assumed.push_back(count);
    }
    cx.device->assume(all, assumed.data());
    bundle.read_back(cx, splits_, all);
    ranks.group().all_reduce(*cx.stream, counts, ReduceOp::sum, ranks.name()).wait(*cx.stream);
  }
  bundle[counts_] = counts.slice(0, ranks.first(), ranks.local());
  const Tensor by_choice = ops::reshape(cx, routing.weights, {choices, 1});
  const Tensor weights =
      ops::permute_rows(cx, by_choice, sorted.order, 1, sorted.inverse.view({choices, 1}));
  return {ops::permute_rows(cx, x, sorted.order, top_k_, sorted.inverse),
          ops::reshape(cx, weights, {choices})};
}

ExpertRows AllToAllDispatcher::dispatch(Context& cx, Bundle& bundle, const ExpertRows& rows) const {
  if (alone()) return rows;
  const auto splits = std::make_shared<const Splits>(
      ranks_, std::as_const(bundle)[splits_], bundle[order_].elements());
  const std::vector<Tensor> arrived =
      carried(cx, "moe_dispatch", splits, {rows.x, rows.weights}, &to_experts, &from_experts);
  return {arrived[0], arrived[1]};
}

Tensor AllToAllDispatcher::combine(Context& cx, Bundle& bundle, const Tensor& y) const {
  if (alone()) return y;
  const auto splits = std::make_shared<const Splits>(
      ranks_, std::as_const(bundle)[splits_], bundle[order_].elements());
  return carried(cx, "moe_combine", splits, {y}, &from_experts, &to_experts)[0];
}

Tensor AllToAllDispatcher::unpermute(Context& cx, Bundle& bundle, const Tensor& y) const {
  const Tensor order = std::exchange(bundle[order_], {});
  const Tensor inverse = std::exchange(bundle[inverse_], {});
  bundle[counts_] = {};
  return ops::unpermute_rows(cx, y, inverse, order);
}

}  // namespace tessera

#include "head_rows.hpp"

#include <utility>

#include "tessera/collectives.hpp"
#include "tessera/ops.hpp"

namespace tessera {

HeadRows::HeadRows(const HeadKeys& keys, BuildContext& build)
    : region_(build.tensor_region()),
      context_(build.mesh().find_group(Axis::context)),
      name_(build.scope()),
      hidden_(build.slot("hidden")),
      sequence_(build.batch().sequence),
      context_ranks_(build.mesh().size(Axis::context)),
      context_rank_(build.mesh().coordinate(Axis::context)),
      tensor_share_(build.mesh().first(Axis::tensor) ? 1 : 0),
      first_context_(build.mesh().first(Axis::context)) {
  if (keys.order == "pre") norm_ = build.child("norm", keys.norm, {}, ChildRows::own);
}

Tensor HeadRows::take(Context& cx, Bundle& bundle) const {
  return region_.enter(cx, std::exchange(bundle[hidden_], {}));
}

Tensor HeadRows::normed(Context& cx, const Tensor& rows) const {
  return norm_ == nullptr ? rows : (*norm_)(cx, rows);
}

std::vector<Tensor> HeadRows::at(Context& cx,
                                 const Tensor& rows,
                                 const std::vector<i64>& places) const {
  const i64 samples = rows.dim(0) / sequence_, hidden = rows.dim(1);
  const Tensor of_samples = ops::reshape(cx, rows, {samples, sequence_ * hidden});
  std::vector<Tensor> found;
  for (const i64 place : places) {
    found.push_back(normed(cx, ops::slice(cx, of_samples, 1, place * hidden, hidden)));
  }
  return found;
}

Tensor HeadRows::first_of_samples(Context& cx, const Tensor& rows) const {
  return at(cx, rows, {0})[0];
}

Tensor HeadRows::whole_samples(Context& cx, const Tensor& x) const {
  if (context_ranks_ == 1) return x;
  const i64 width = x.dim(1) / zigzag::kHalves;
  const Tensor by_rank = collectives::gather(cx, x, *context_, name_);
  const std::vector<Tensor> halves =
      ops::split(cx,
                 by_rank,
                 std::vector<i64>(static_cast<std::size_t>(zigzag::chunks(context_ranks_)), width));
  std::vector<Tensor> in_order(halves.size());
  for (i64 rank = 0; rank < context_ranks_; ++rank) {
    for (i64 half = 0; half < zigzag::kHalves; ++half) {
      in_order[static_cast<std::size_t>(zigzag::chunk(context_ranks_, rank, half))] =
          halves[static_cast<std::size_t>(rank * zigzag::kHalves + half)];
    }
  }
  return ops::join(cx, in_order);
}

Tensor HeadRows::ids_at(Context& cx, const Tensor& entries, i64 place) const {
  const i64 samples = entries.elements() / sequence_;
  const Tensor column = entries.view({samples, sequence_}).slice(1, place, 1);
  return ops::run(cx, CopyArgs{column.arg(), {}})[0].view({samples});
}

Tensor HeadRows::sum_over_context(Context& cx, const Tensor& x) const {
  return context_ranks_ == 1 ? x : collectives::reduce(cx, x, *context_, name_);
}

i64 HeadRows::place_of(i64 position) const {
  if (context_ranks_ == 1) return position;
  for (i64 half = 0; half < zigzag::kHalves; ++half) {
    const i64 begin = zigzag::chunk(context_ranks_, context_rank_, half) * chunk();
    if (position >= begin && position < begin + chunk()) return half * chunk() + position - begin;
  }
  return -1;
}

std::shared_ptr<Module> head_linear(std::string_view name,
                                    const Component<Module>& component,
                                    i64 in,
                                    i64 out,
                                    double init_std,
                                    BuildContext& build) {
  return build.child(name,
                     component,
                     {{"in", in}, {"out", out}, {"bias", true}, {"init_std", init_std}},
                     ChildRows::own);
}

}  // namespace tessera

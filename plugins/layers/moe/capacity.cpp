#include "capacity.hpp"

#include "tessera/collectives.hpp"
#include "tessera/error.hpp"
#include "tessera/moe_ops.hpp"

namespace tessera {

i64 most_rows(const BatchShape& batch, i64 ranks, i64 limit) {
  const i64 rows = batch.rows() / ranks;
  i64 most = 0;
  for (i64 rank = 0; rank < ranks; ++rank) {
    i64 kept = 0;
    for (i64 sample = 0; sample < batch.micro; ++sample) {
      const i64 begin = std::max(rank * rows, sample * batch.sequence);
      const i64 end = std::min((rank + 1) * rows, (sample + 1) * batch.sequence);
      kept += std::clamp<i64>(end - begin, 0, limit);
    }
    most = std::max(most, kept);
  }
  return most;
}

Capacity::Capacity(BuildContext& build, const Options& options)
    : options_(options),
      region_(build.tensor_region()),
      sequences_(build.mesh().all().empty() ? nullptr : &build.mesh().named("tp-cp")),
      shared_(options.per_sequence &&
              (region_.size() > 1 || build.sequence_length() > build.batch().sequence)),
      row_ids_(build.slot("row_ids")) {
  const BatchShape& batch = build.batch();
  const i64 ranks = region_.size();
  tokens_ = options.per_sequence ? build.sequence_length() : batch.rows() / ranks;
  limit_ = capacity_of(tokens_, options.top_k, options.experts, options.factor);
  most_ = options.per_sequence ? most_rows(batch, ranks, limit_) : limit_;
}

Tensor Capacity::keep(Context& cx, const Bundle& bundle, const Routing& routing) const {
  Tensor rows = bundle[row_ids_];
  if (region_.size() > 1) rows = collectives::row_part(rows, region_.group());
  Tensor experts = routing.experts, weights;
  if (options_.by_weight) weights = routing.weights.with_var({});
  ops::KeepSpec spec{.experts = options_.experts,
                     .limit = limit_,
                     .per_sample = options_.per_sequence,
                     .first = 0,
                     .rows = experts.dim(0)};
  if (shared_) {
    require(sequences_ != nullptr, "{}: this mesh has no communicators", region_.name());
    const auto everywhere = [&](const Tensor& mine) {
      Shape shape = mine.shape();
      shape[0] *= sequences_->size();
      Tensor all = cx.empty(shape, mine.dtype());
      sequences_->all_gather(*cx.stream, mine, all, region_.name()).wait(*cx.stream);
      return all;
    };
    spec.first = sequences_->index() * spec.rows;
    rows = everywhere(rows);
    experts = everywhere(experts);
    if (weights.defined()) weights = everywhere(weights);
  }
  return ops::keep_choices(cx, experts, weights, rows, spec);
}

}  // namespace tessera

#include "meeting.hpp"

#include <utility>

namespace tessera {

Meeting::Meeting(const MeetingKeys& keys,
                 const ops::AttentionShape& shape,
                 double scale,
                 double dropout,
                 BuildContext& build)
    : names_(std::make_shared<ContextNames>(build.scope())),
      context_(build.mesh().find_group(Axis::context)),
      row_ids_(build.slot("row_ids")),
      first_(build.slot("first")),
      last_(build.slot("last")),
      shape_(shape) {
  if (keys.window && !keys.causal) {
    build.reject("window", "it ends at each position: it needs causal = true");
  }
  spec_.scale = scale;
  spec_.causal = keys.causal;
  spec_.window = keys.window.value_or(0);
  spec_.dropout = dropout;
  spec_.key = build.random_site("attention");
  spec_.head_offset = build.tensor_region().index() * shape.heads;
  choose_method(keys.context, build);
}

void Meeting::choose_method(const std::string& name, BuildContext& build) {
  const i64 ranks = build.mesh().size(Axis::context);
  if (ranks == 1) return;
  if (name == "ring") method_ = &ring_attention;
  if (name == "allgather") method_ = &allgather_attention;
  if (name != "all_to_all") return;
  method_ = &all_to_all_attention;
  for (const auto& [key, heads] :
       {std::pair{"heads", shape_.heads}, {"kv_heads", shape_.kv_heads}}) {
    if (heads % ranks == 0) continue;
    build.reject(key,
                 fmt::format("context = \"all_to_all\" deals the {} of a tensor-parallel rank to "
                             "parallel.context = {} ranks, which does not divide; "
                             "\"ring\" and \"allgather\" need no such thing",
                             heads,
                             ranks));
  }
}

Tensor Meeting::attend(Context& cx, const Tensor& qkv, const Bundle& bundle) const {
  ops::AttentionShape shape = shape_;
  shape.batch = qkv.dim(0) / shape.sequence;  // evaluation may use fewer samples
  const ops::AttentionLimits limits{bundle[first_], bundle[last_]};
  const Tensor& row_ids = bundle[row_ids_];
  if (method_ == nullptr) return ops::attention(cx, qkv, row_ids, shape, spec_, limits);
  return method_(cx, qkv, row_ids, {shape, spec_, limits, context_, names_.get()});
}

Tensor Meeting::attend_kept(Context& cx,
                            const Tensor& queries,
                            const Tensor& kept,
                            const Bundle& bundle) const {
  require(!bundle[first_].defined() && !bundle[last_].defined(),
          "{}: the slots first and last are not for a cache",
          names_->layer);
  return ops::cached_attention(cx, queries, kept, bundle[row_ids_], shape_, spec_);
}

}  // namespace tessera

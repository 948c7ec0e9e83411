#include "token_table.hpp"

#include "tessera/ops.hpp"

namespace tessera {

TokenTable::TokenTable(
    i64 vocab, i64 vocab_multiple, i64 hidden, double init_std, BuildContext& build)
    : region_(build.tensor_region()),
      weight_(&build.parameter({.name = "weight",
                                .shape = {vocab, hidden},
                                .split = {{0, Axis::tensor, {}, vocab_multiple}},
                                .init = Init::gaussian(init_std),
                                .tags = {"embedding"},
                                .share = "embedding.weight"})),
      first_(region_.index() * weight_->local[0]) {}

// A rank finds the tokens of its part of the vocabulary, and zeros for the others.
Tensor TokenTable::look_up(Context& cx, const Tensor& tokens) const {
  return region_.leave(cx, ops::embedding(cx, tokens, *weight_, first_));
}

Parameter& whole_table(
    std::string_view name, i64 rows, i64 hidden, double init_std, BuildContext& build) {
  return build.parameter({.name = std::string(name),
                          .shape = {rows, hidden},
                          .init = Init::gaussian(init_std),
                          .tags = {"embedding"},
                          .placement = build.tensor_region().per_row()});
}

}  // namespace tessera

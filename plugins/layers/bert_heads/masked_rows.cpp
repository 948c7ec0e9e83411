#include "masked_rows.hpp"

#include "tessera/moe_ops.hpp"

namespace tessera {

// Sorted by their mask, the selected rows are the last ones.
MaskedRows::MaskedRows(Context& cx, const Tensor& mask, i64 places) {
  const i64 rows = mask.elements();
  const Tensor chosen = cx.empty({rows, 1}, DType::i32);
  ops::run(cx, CopyArgs{mask.view({rows, 1}).arg(), chosen.arg()});
  order_ = ops::sort_by_expert(cx, chosen, 2).order.slice(0, rows - places, places);
}

Tensor MaskedRows::of(Context& cx, const Tensor& rows) const {
  return ops::permute_rows(cx, rows, order_, 1);
}

Tensor MaskedRows::entries(Context& cx, const Tensor& entries) const {
  const Tensor column = entries.view({entries.elements(), 1});
  return ops::run(cx, PermuteRowsArgs{column.arg(), order_.arg(), {}})[0].view({order_.dim(0)});
}

}  // namespace tessera

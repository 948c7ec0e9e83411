#include "head_rows.hpp"

#include <utility>

#include "tessera/ops.hpp"

namespace tessera {

HeadRows::HeadRows(const HeadKeys& keys, BuildContext& build)
    : region_(build.tensor_region()),
      hidden_(build.slot("hidden")),
      sequence_(build.batch().sequence),
      share_(build.mesh().first(Axis::tensor) && build.mesh().first(Axis::context) ? 1 : 0) {
  if (keys.order == "pre") norm_ = build.child("norm", keys.norm, {}, ChildRows::own);
}

Tensor HeadRows::take(Context& cx, Bundle& bundle) const {
  return region_.enter(cx, std::exchange(bundle[hidden_], {}));
}

Tensor HeadRows::normed(Context& cx, const Tensor& rows) const {
  return norm_ == nullptr ? rows : (*norm_)(cx, rows);
}

Tensor HeadRows::first_of_samples(Context& cx, const Tensor& rows) const {
  const i64 samples = rows.dim(0) / sequence_, hidden = rows.dim(1);
  const Tensor whole = ops::reshape(cx, rows, {samples, sequence_ * hidden});
  return normed(cx, ops::slice(cx, whole, 1, 0, hidden));
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

#pragma once
#include "tessera/build.hpp"
#include "tessera/moe_ops.hpp"

namespace tessera {

/// What a router sees of its rows: in training each element times a random number between 1 - eps
/// and 1 + eps (Fedus et al. 2022, appendix B), the same under every layout.
class JitteredInput {
 public:
  JitteredInput(double eps, BuildContext& build)
      : eps_(eps),
        region_(build.tensor_region()),
        key_(build.random_site("jitter")),
        row_ids_(build.slot("row_ids")) {}

  Tensor operator()(Context& cx, const Bundle& bundle, const Tensor& x) const {
    if (eps_ == 0 || !cx.training()) return x;
    return ops::jitter(cx, x, region_.split_entries(bundle[row_ids_]), eps_, key_);
  }

 private:
  double eps_;
  TensorRegion region_;
  u64 key_;
  Slot row_ids_;
};

}  // namespace tessera

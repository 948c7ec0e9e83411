#include "sample_heads.hpp"
#include "tessera/ops.hpp"

namespace tessera {

std::vector<Phase> TokenRows::do_phases() {
  return {{.scope = "head", .run = [this](Context& cx, Bundle& bundle) {
             const Tensor rows = rows_.take(cx, bundle);
             const Tensor last = rows_.normed(cx, rows);
             const i64 samples = last.dim(0) / rows_.sequence();
             bundle[scores_] = rows_.whole_samples(
                 cx, ops::reshape(cx, last, {samples, rows_.sequence() * last.dim(1)}));
           }}};
}

}  // namespace tessera

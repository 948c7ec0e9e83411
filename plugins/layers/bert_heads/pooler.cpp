#include "pooler.hpp"

#include "tessera/ops.hpp"

namespace tessera {

Tensor Pooler::operator()(Context& cx, const Tensor& first) const {
  return ops::tanh(cx, (*dense_)(cx, first));
}

}  // namespace tessera

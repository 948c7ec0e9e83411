#include "tessera/context.hpp"

#include "tessera/error.hpp"

namespace tessera {

Tensor Context::empty(const Shape& shape, DType dtype) const {
  return Tensor::allocate(*device, *pool, *stream, shape, dtype, category);
}

void Context::add_loss(LossTerm term, const Tensor& scalar) {
  require(scalar.dtype() == DType::fp64 && scalar.elements() == 1,
          "a loss must be fp64 [1], not {}",
          scalar);
  if (recording()) tape->root(scalar);
  if (!recomputing && sink != nullptr) sink->add_loss(*this, term, scalar);
}

void Context::report(Metric metric, const Tensor& scalar) {
  require(scalar.dtype() == DType::fp64 && scalar.elements() == 1,
          "a metric must be fp64 [1], not {}",
          scalar);
  if (!recomputing && sink != nullptr) sink->report(*this, metric, scalar);
}

void Context::count(Counts counts, i64 set, const Tensor& entries) {
  if (training() && !recomputing && sink != nullptr) sink->count(*this, counts, set, entries);
}

}  // namespace tessera

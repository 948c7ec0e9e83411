#pragma once
#include <span>

#include "tessera/base/parameter_memory.hpp"
#include "tessera/context.hpp"

namespace tessera {

/// The sum of squares of the gradients that this rank counts in the norm, for an optimizer that has
/// the whole gradient of every parameter. In model order, so that it has one order however memory
/// lies. Made when `memory` has gradients; used on the rank's thread.
class TESSERA_API CountedSquares {
 public:
  CountedSquares() = default;
  CountedSquares(Device& device,
                 std::span<Parameter* const> parameters,
                 const ParameterMemory& memory);
  /// `out`: as Optimizer::sum_squares.
  void add(Context& cx, const Tensor& out) const;

 private:
  Tensor gradients_;
  Tensor dense_, experts_;  // i64 [n, 2]: ranges of the gradients; undefined: none
};

}  // namespace tessera

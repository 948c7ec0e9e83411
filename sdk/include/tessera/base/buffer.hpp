#pragma once
#include <optional>
#include <string_view>

#include "tessera/parameter.hpp"
#include "tessera/tensor.hpp"

namespace tessera {

/// What a layer declares of a buffer: a tensor that lives as long as the model and that no gradient
/// changes, such as the bias by which a router balances its experts.
///
///     bias_ = &build.buffer({.name = "bias", .shape = {experts}});
///
/// It is whole on every rank that holds the layer. One that is saved must be equal on all of them:
/// the replica check compares it, checkpoints have it once, under its logical name, and a run under
/// another layout goes on from it. One that is not saved may differ between ranks and is what a
/// layer gathers during a step; it holds its initial value when a run starts or goes on.
struct BufferSpec {
  std::string_view name;  ///< within the layer's scope: "bias"
  Shape shape;
  std::optional<DType> dtype = {};  ///< none: that of main parameters; others cannot be saved
  double initial = 0;               ///< value of every element
  bool saved = true;
};

/// A buffer of this rank, at a fixed address. Made by BuildContext::buffer. Its layer writes it in
/// Layer::end_step, and one that is not saved also in phases that train and do not run again for
/// the backward pass (Context::recomputing).
struct TESSERA_API Buffer : LogicalTensor {
  DType dtype = DType::fp32;
  double initial = 0;
  bool saved = true;
  Tensor value;  ///< [shape], dense
};

}  // namespace tessera

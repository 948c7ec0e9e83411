#pragma once
#include <functional>
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
  /// Makes it a constant, such as a table of angles: what each element is, by its row-major number,
  /// rounded once. Nobody writes it and it is not saved.
  std::function<double(i64 element)> values = {};
  /// Of a constant: declarations of one share name are one buffer of this name on a rank. All of
  /// them give the same shape, dtype and values.
  std::string_view share = {};
};

/// A buffer of this rank, at a fixed address. Made by BuildContext::buffer. Unless it is a
/// constant, its layer writes it in Layer::end_step, and one that is not saved also in phases that
/// train and do not run again for the backward pass (Context::recomputing).
struct TESSERA_API Buffer : LogicalTensor {
  DType dtype = DType::fp32;
  double initial = 0;
  bool saved = true;
  std::function<double(i64 element)> values;  ///< of a constant
  Tensor value;                               ///< [shape], dense

  bool constant() const { return static_cast<bool>(values); }
};

}  // namespace tessera

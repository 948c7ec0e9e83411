#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/parameter_layout.hpp"
#include "tessera/tensor.hpp"

namespace tessera {

/// Initial values, computed in double from (seed, parameter name, logical element) and rounded
/// once.
struct Init {
  enum Kind : u8 { constant, normal } kind = constant;
  double value = 0;   ///< of constant
  double stddev = 0;  ///< of normal
  static Init zeros() { return {}; }
  static Init ones() { return {constant, 1, 0}; }
  static Init gaussian(double stddev) { return {normal, 0, stddev}; }
  bool operator==(const Init&) const = default;
};

/// What a layer declares. Per mesh axis a parameter is sharded (a Split), replicated with equal
/// gradients, or replicated with partial gradients (Placement).
struct ParameterSpec {
  std::string_view name;  ///< within the layer's scope: "weight"
  Shape shape;            ///< logical, unpadded
  std::vector<Split> split = {};
  Init init = {};
  std::vector<std::string> tags = {};  ///< "bias", "norm", "embedding": optimizer groups match them
  /// Declarations with one share name are one logical parameter wherever they sit: all of them give
  /// the same shape, split, init, tags and placement, under every layout.
  std::string_view share = {};
  /// Required unless the tensor axis or an expert axis cuts the parameter: declaring one without it
  /// is an Error, under every layout, so that no partial gradient can be forgotten.
  Placement placement = {};
  /// The share of it that one token uses: top_k / experts for matrices of experts. For reports.
  double active = 1;
  /// ops::linear multiplies by it: the device may keep prepared forms (Parameter).
  bool linear = false;
};

/// A tensor that exists once for the model, whatever the layout: a parameter or a buffer.
struct LogicalTensor {
  std::string name;        ///< logical: "layers.3.attention.qkv.weight"
  Shape logical;           ///< unpadded
  Shape local;             ///< of this rank's storage, padding included
  ParameterLayout layout;  ///< who stores, sums and counts which elements
};

/// A trainable tensor of this rank. Made by BuildContext::parameter; lives as long as the model,
/// its forms at fixed addresses. The optimizer writes `main` and `compute`; layers read `compute`
/// and accumulate into `grad` through operations.
struct TESSERA_API Parameter : LogicalTensor {
  Init init;
  std::vector<std::string> tags;
  Tensor main;        ///< the precision's main dtype
  Tensor compute;     ///< what layers read; the same memory as main when the dtypes agree
  Tensor grad;        ///< main dtype; accumulated (beta always 1), zeroed once a step
  double active = 1;  ///< as ParameterSpec
  /// The forms of a linear layer's `compute` that the device's products read forward, and for input
  /// gradients (PackWeightArgs); undefined without precision.prepare_weights. Packed after each
  /// change and before the first reader.
  Tensor forward_packed, backward_packed;
  bool linear = false;  ///< as ParameterSpec, of any of its declarations on this rank

  bool has_tag(std::string_view tag) const;
};

/// What every rank knows of a parameter of the model, wherever it lives.
struct ParameterName {
  std::string name;  ///< logical
  std::vector<std::string> tags;
};

}  // namespace tessera

#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/mesh.hpp"
#include "tessera/tensor.hpp"

namespace tessera {

/// A dimension cut over a mesh axis. With sections (fused QKV, gate and up) each section is cut on
/// its own, so that every rank holds its part of each. With `pad_to` > 0 storage is padded with
/// zero rows to a multiple of pad_to × size(axis), never trained and never stored; otherwise the
/// size must divide.
struct Split {
  int dim = 0;
  Axis axis = Axis::tensor;
  std::vector<i64> sections = {};
  i64 pad_to = 0;
};

/// Initial values, computed in double from (seed, parameter name, logical element) and rounded
/// once.
struct Init {
  enum Kind : u8 { constant, normal } kind = constant;
  double value = 0;   ///< of constant
  double stddev = 0;  ///< of normal
  static Init zeros() { return {}; }
  static Init ones() { return {constant, 1, 0}; }
  static Init gaussian(double stddev) { return {normal, 0, stddev}; }
};

/// What the ranks of an axis that does not cut a parameter compute of its gradient. A layer takes
/// it from its TensorRegion, which knows: `region.per_row()`.
struct Placement {
  bool given = false;
  std::vector<Axis> partial = {};
  /// Every rank computes the whole gradient, the same on all of them.
  static Placement replicated() { return {true, {}}; }
  /// Along these axes each rank computes a part; the parts are summed once a step.
  static Placement summed_over(std::vector<Axis> axes) { return {true, std::move(axes)}; }
};

/// What a layer declares. Per mesh axis a parameter is sharded (a Split), replicated with equal
/// gradients, or replicated with partial gradients (Placement).
struct ParameterSpec {
  std::string_view name;  ///< within the layer's scope: "weight"
  Shape shape;            ///< logical, unpadded
  std::vector<Split> split = {};
  Init init = {};
  std::vector<std::string> tags = {};  ///< "bias", "norm", "embedding": optimizer groups match them
  /// Declarations with one share name are one logical parameter wherever they sit.
  std::string_view share = {};
  /// Required unless the tensor axis or an expert axis cuts the parameter: declaring one without it
  /// is an Error, under every layout, so that no partial gradient can be forgotten.
  Placement placement = {};
};

/// Where a run of this rank's elements along a cut dimension sits in the logical tensor.
struct Slice {
  i64 local = 0, logical = 0, length = 0;
};

/// A trainable tensor of this rank. Made by BuildContext::parameter; lives as long as the model,
/// its forms at fixed addresses. The optimizer writes `main` and `compute`; layers read `compute`
/// and accumulate into `grad` through operations.
struct TESSERA_API Parameter {
  std::string name;  ///< logical: "layers.3.attention.qkv.weight"
  Shape logical;     ///< unpadded
  Shape local;       ///< of this rank's storage, padding included
  std::vector<Split> split;
  std::vector<Axis> partial;  ///< axes over which `grad` is summed once a step
  Init init;
  std::vector<std::string> tags;
  /// False for copies of a shared parameter beyond that of the first pipeline stage that holds it:
  /// gradient norm and checkpoint take each parameter once.
  bool counted = true;

  Tensor main;     ///< the precision's main dtype
  Tensor compute;  ///< what layers read; the same memory as main when the dtypes agree
  Tensor grad;     ///< main dtype; accumulated (beta always 1), zeroed once a step

  bool has_tag(std::string_view tag) const;
  /// Runs of this rank along `dim`; one covering run when the dimension is not cut.
  std::vector<Slice> slices(int dim, const Mesh& mesh) const;
};

/// Runs of one member of an axis along a dimension of `logical` elements under `split`.
TESSERA_API std::vector<Slice> split_slices(const Split& split, i64 logical, i64 index, i64 size);
/// Elements of one member's storage along that dimension, padding included. Throws ConfigError
/// when a section does not divide.
TESSERA_API i64 split_storage(const Split& split, i64 logical, i64 size);

}  // namespace tessera

#pragma once
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/mesh.hpp"
#include "tessera/types.hpp"

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
  bool operator==(const Split&) const = default;
};

/// What the ranks of an axis that does not cut a parameter compute of its gradient. A layer takes
/// it from its TensorRegion, which knows: `region.per_row()`.
struct Placement {
  bool given = false;
  std::vector<Axis> partial = {};
  bool operator==(const Placement&) const = default;
  /// Every rank computes the whole gradient, the same on all of them.
  static Placement replicated() { return {true, {}}; }
  /// Along these axes each rank computes a part; the parts are summed once a step.
  static Placement summed_over(std::vector<Axis> axes) { return {true, std::move(axes)}; }
};

/// Where a run of this rank's elements along a cut dimension sits in the logical tensor.
struct Slice {
  i64 local = 0, logical = 0, length = 0;
};

/// A run of elements that lies contiguously both in this rank's storage and in the logical tensor.
struct ElementRun {
  i64 local = 0, logical = 0, length = 0;
};

/// A dimension of a tensor that belongs to a parameter, as a mean for each of its rows.
struct StateDim {
  i64 size = 0;    ///< logical
  int along = -1;  ///< the parameter's dimension that it is, cut as that is cut; -1: of its own
};
using StateShape = std::vector<StateDim>;  ///< empty: one number

/// Elements [begin, begin + length) of this rank's storage of a parameter, in row-major order.
struct FlatRange {
  i64 begin = 0, length = 0;
  bool operator==(const FlatRange&) const = default;
};

/// What a parameter's placement means on one rank: who stores, sums and counts which elements.
/// Computed once, when the parameter is declared, and read by everything that needs to know.
/// Declared axes decide, whatever their sizes. A value.
class TESSERA_API ParameterLayout {
 public:
  ParameterLayout() = default;
  /// `holders`: pipeline ranks that hold the parameter, in the order of their stages; empty where
  /// this rank holds it alone. Throws ConfigError when a cut does not divide.
  ParameterLayout(const Shape& logical,
                  const std::vector<Split>& split,
                  const Placement& placement,
                  const Mesh& mesh,
                  std::vector<int> holders = {});

  /// The layout of a tensor that belongs to the parameter: cut along what `shape` keeps of its cut
  /// dimensions, with equal values on the other ranks that hold a part of the parameter. Throws
  /// Error when a dimension has another size than the one that it lies along.
  ParameterLayout of_state(const StateShape& shape, const Mesh& mesh) const;

  const Shape& logical() const { return logical_; }
  /// This rank's storage, padding included.
  const Shape& storage() const { return storage_; }
  bool cut(Axis axis) const { return cut_dim(axis) >= 0; }
  /// The dimension that an axis cuts, whatever the axis's size; -1: none.
  int cut_dim(Axis axis) const;
  /// Axes over which each rank computes a part of the gradient, to be summed.
  const std::vector<Axis>& partial() const { return partial_; }
  bool partial(Axis axis) const;
  /// Cut along an axis of the experts: then equal copies are in the expert_data group, otherwise in
  /// the data × context group.
  bool expert() const { return expert_; }
  ProcessGroup& replicas(const Mesh& mesh) const;
  const std::vector<int>& holders() const { return holders_; }
  /// Held by several pipeline ranks (tied embeddings): their gradients are summed.
  bool shared() const { return holders_.size() > 1; }
  /// Does this rank count its elements in a sum over one model replica? Each logical element is
  /// counted by one rank of it: of tensor × pipeline, or of expert_tensor × expert × pipeline for
  /// experts.
  bool counted() const { return counted_; }
  /// Does this rank save its elements? Each logical element is saved by one rank of the world.
  bool saved() const { return saved_; }
  /// Runs of this rank along `dim`; one covering run when the dimension is not cut.
  const std::vector<Slice>& slices(int dim) const { return slices_[static_cast<std::size_t>(dim)]; }
  /// How many of the elements along `dim` are logical: the others, at the end, are padding.
  i64 unpadded(int dim) const;
  /// The first dimension but 0 along which an axis cuts it, whatever the axis's size; 0: none does.
  int column_dim() const { return column_dim_; }
  /// All runs of this rank's storage, padding left out: what initialisation, checkpoints and
  /// gathered comparisons walk over.
  std::vector<ElementRun> runs() const;

 private:
  void place(const Mesh& mesh);
  Shape logical_, storage_;
  std::vector<Split> split_;
  bool expert_ = false;
  std::vector<Axis> partial_;
  std::vector<int> holders_;
  bool counted_ = true, saved_ = true;
  int column_dim_ = 0;
  std::array<std::vector<Slice>, kMaxRank> slices_;
};

/// Runs of one member of an axis along a dimension of `logical` elements under `split`.
TESSERA_API std::vector<Slice> split_slices(const Split& split, i64 logical, i64 index, i64 size);
/// Elements of one member's storage along that dimension, padding included. Throws ConfigError
/// when a section does not divide.
TESSERA_API i64 split_storage(const Split& split, i64 logical, i64 size);

}  // namespace tessera

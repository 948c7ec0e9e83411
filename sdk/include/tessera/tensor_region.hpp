#pragma once
#include <string>

#include "tessera/context.hpp"
#include "tessera/parameter.hpp"

namespace tessera {

/// The part of a layer in which the ranks of the tensor group share the features of each row
/// (Shoeybi et al. 2019, §3). Between regions every rank has all features: of all rows, or, under
/// sequence parallelism, of its own rows / t (Korthikanti et al. 2022, §4.2.2). This is the only
/// place that knows which: a layer written with it is right with and without.
///
///     Mlp(const Config& config, BuildContext& build) : region_(build.tensor_region()) {
///       up_ = &build.parameter({.name = "up", .shape = {f, h}, .split = {{0, Axis::tensor}}, …});
///       down_ = &build.parameter({.name = "down", .shape = {h, f}, .split = {{1, Axis::tensor}},
///       …}); bias_ = &build.parameter({.name = "bias", .shape = {h}, .placement =
///       region_.per_row()});
///     }
///     Tensor operator()(Context& cx, const Tensor& x) const override {  // x: between regions
///       const Tensor inner = ops::gelu(cx, region_.column(cx, x, *up_, nullptr));
///       return region_.row(cx, inner, *down_, bias_);
///     }
///
/// Made by BuildContext::tensor_region; its group is resolved then. A value, used on the rank's
/// thread. Under a tensor group of one the members of this class communicate nothing.
class TESSERA_API TensorRegion {
 public:
  /// `own_rows`: rows between regions are shared out (sequence parallelism), or rows of own heads.
  /// `name` is the call site of its collectives, for errors and the flight recorder.
  TensorRegion(const Mesh& mesh, bool own_rows, std::string name);

  i64 size() const { return size_; }    ///< ranks of the tensor group (t)
  i64 index() const { return index_; }  ///< of this rank among them
  const std::string& name() const { return name_; }
  /// The tensor group, for what has collectives of its own (ops::cross_entropy). Throws Error where
  /// the mesh has no communicators.
  ProcessGroup& group() const;

  /// Into the region: x [own rows, features] of between regions becomes [rows, features], the same
  /// on every rank. Backward sums the ranks' gradients.
  Tensor enter(Context& cx, const Tensor& x) const;
  /// Out of the region: sums the ranks' parts y [rows, features], and gives each rank its own rows.
  /// Reduces in place where y was moved in and is the only handle.
  Tensor leave(Context& cx, Tensor y) const;
  /// ops::linear(enter(x)): this rank's out / t features, [rows, out / t], of x [own rows, in].
  /// `weight` [out, in] is cut along dimension 0, as is `bias` (or nullptr). Under sequence
  /// parallelism only own rows of x are kept for the backward pass.
  Tensor column(Context& cx, const Tensor& x, Parameter& weight, Parameter* bias) const;
  /// leave(ops::linear(x)) + bias: [own rows, out] of x [rows, in / t]. `weight` [out, in] is cut
  /// along dimension 1; `bias` (or nullptr) is declared with per_row() and added once.
  Tensor row(Context& cx, const Tensor& x, Parameter& weight, Parameter* bias) const;

  /// Within the region: all features of every row, [rows, features], from each rank's
  /// [rows, features / t]; and back.
  Tensor gather_features(Context& cx, const Tensor& x) const;
  Tensor scatter_features(Context& cx, const Tensor& x) const;

  /// This rank's own entries of an input slot (`row_ids`, `positions`, …) that has one for each row
  /// of the microbatch. Untracked, shares memory.
  Tensor own_rows(const Tensor& entries) const;
  /// The placement of a parameter that is applied to own rows, between regions: norms, row biases,
  /// position tables.
  Placement per_row() const;

  /// Makes x [own rows, features] of between regions rows / t of each rank, also where own rows are
  /// all rows: for layers that compute on different rows on every rank, as routers do. And back.
  /// Rows have to divide among the ranks.
  Tensor split_rows(Context& cx, const Tensor& x) const;
  Tensor join_rows(Context& cx, const Tensor& x) const;
  /// The entries of split rows, of an input slot that has one for each row of the microbatch.
  /// Untracked, shares memory.
  Tensor split_entries(const Tensor& entries) const;
  /// The placement of a parameter that is applied to split rows.
  Placement per_split_row() const;

 private:
  std::string name_;
  ProcessGroup* group_;  // nullptr: the mesh has no communicators
  i64 size_, index_;
  bool own_rows_;  // sequence parallelism
};

}  // namespace tessera

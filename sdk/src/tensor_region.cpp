#include "tessera/tensor_region.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tessera/build.hpp"
#include "tessera/collectives.hpp"
#include "tessera/ops.hpp"

namespace tessera {

namespace {

// The keys of [parallel] that say how many ranks an axis has.
constexpr std::array<std::string_view, kAxes> kLayoutKeys = {
    "tensor", "context", "data", "pipeline", "expert_tensor", "expert", "data"};

}  // namespace

TensorRegion::TensorRegion(const Mesh& mesh, bool sequence_parallel, std::string name)
    : name_(std::move(name)),
      group_(mesh.find_group(Axis::tensor)),
      size_(mesh.size(Axis::tensor)),
      index_(mesh.coordinate(Axis::tensor)),
      own_rows_(sequence_parallel && size_ > 1) {}

ProcessGroup& TensorRegion::group() const {
  require(group_ != nullptr, "{}: this mesh has no communicators, nothing may run over it", name_);
  return *group_;
}

Tensor TensorRegion::enter(Context& cx, const Tensor& x) const {
  if (size_ == 1) return x;
  return own_rows_ ? collectives::gather_rows(cx, x, group(), name_)
                   : collectives::copy(cx, x, group(), name_);
}

// By value: whether this is the last owner decides whether the sum is made in place.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
Tensor TensorRegion::leave(Context& cx, Tensor y) const {
  if (size_ == 1) return y;
  return own_rows_ ? collectives::reduce_scatter_rows(cx, y, group(), name_)
                   : collectives::reduce(cx, std::move(y), group(), name_);
}

Tensor TensorRegion::column(Context& cx,
                            const Tensor& x,
                            Parameter& weight,
                            Parameter* bias) const {
  if (own_rows_) return collectives::gathered_linear(cx, x, weight, bias, group(), name_);
  return ops::linear(cx, enter(cx, x), weight, bias);
}

Tensor TensorRegion::row(Context& cx, const Tensor& x, Parameter& weight, Parameter* bias) const {
  if (size_ == 1) return ops::linear(cx, x, weight, bias);
  require(bias == nullptr || bias->layout.partial(Axis::tensor) == own_rows_,
          "{}: the bias \"{}\" is added to own rows; declare it with "
          ".placement = build.tensor_region().per_row()",
          name_,
          bias != nullptr ? bias->name : "");
  Tensor y = leave(cx, ops::linear(cx, x, weight, nullptr));
  return bias != nullptr ? ops::add_bias(cx, std::move(y), *bias) : y;
}

Tensor TensorRegion::gather_features(Context& cx, const Tensor& x) const {
  return size_ == 1 ? x : collectives::gather(cx, x, group(), name_);
}

Tensor TensorRegion::scatter_features(Context& cx, const Tensor& x) const {
  return size_ == 1 ? x : collectives::scatter(cx, x, group(), name_);
}

Tensor TensorRegion::own_rows(const Tensor& entries) const {
  return own_rows_ ? collectives::row_part(entries, group()) : entries;
}

Placement TensorRegion::per_row() const {
  return own_rows_ ? Placement::summed_over({Axis::tensor}) : Placement::replicated();
}

Tensor TensorRegion::split_rows(Context& cx, const Tensor& x) const {
  return size_ == 1 || own_rows_ ? x : collectives::split_rows(cx, x, group(), name_);
}

Tensor TensorRegion::join_rows(Context& cx, const Tensor& x) const {
  return size_ == 1 || own_rows_ ? x : collectives::join_rows(cx, x, group(), name_);
}

Tensor TensorRegion::split_entries(const Tensor& entries) const {
  const i64 each = entries.dim(0) / size_;
  return size_ == 1 ? entries : entries.slice(0, index_ * each, each);
}

Placement TensorRegion::per_split_row() const {
  return size_ > 1 ? Placement::summed_over({Axis::tensor}) : Placement::replicated();
}

TensorRegion BuildContext::tensor_region() const { return {mesh(), own_rows(), scope()}; }

i64 BuildContext::sequence_length() const { return batch().sequence * mesh().size(Axis::context); }

i64 BuildContext::divide(i64 whole, std::string_view key, std::string_view what, Axis axis) const {
  const i64 ranks = mesh().size(axis);
  if (whole % ranks != 0) {
    reject(key,
           fmt::format("{} {} do not divide among parallel.{} = {} ranks",
                       whole,
                       what,
                       kLayoutKeys[static_cast<std::size_t>(axis)],
                       ranks));
  }
  return whole / ranks;
}

}  // namespace tessera

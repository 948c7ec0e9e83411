#include "sdk/src/autograd/infer.hpp"

#include "tessera/operation.hpp"

namespace tessera {
namespace {

bool has_shape(const TensorArg& tensor, const Shape& shape) {
  if (tensor.rank != shape.rank()) return false;
  for (int i = 0; i < tensor.rank; ++i) {
    if (tensor.shape[i] != shape[i]) return false;
  }
  return true;
}

Shape strides_of(const TensorArg& tensor) {
  Shape strides;
  for (int i = 0; i < tensor.rank; ++i) strides.push_back(tensor.strides[i]);
  return strides;
}

}  // namespace

void describe(TensorArg& tensor, const Shape& shape, DType dtype) {
  const Shape strides = dense_strides(shape);
  tensor.dtype = dtype;
  tensor.rank = shape.rank();
  for (int i = 0; i < shape.rank(); ++i) {
    tensor.shape[i] = shape[i];
    tensor.strides[i] = strides[i];
  }
}

Shape shape_of(const TensorArg& tensor) {
  Shape shape;
  for (int i = 0; i < tensor.rank; ++i) shape.push_back(tensor.shape[i]);
  return shape;
}

std::string text_of(const TensorArg& tensor) {
  if (!present(tensor)) return "absent";
  return fmt::format("{} {}", dtype_name(tensor.dtype), shape_of(tensor));
}

Infer::Infer(std::string_view operation,
             std::span<const TensorRule> rules,
             const TensorArg* tensors)
    : operation_(operation),
      rules_(rules),
      tensors_(tensors),
      data_(data_dtype(rules.data(), tensors, static_cast<int>(rules.size()))) {
  if (is_floating(data_)) [[likely]]
    return;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (rules[i].type != TypeRule::data || !present(tensors[i])) continue;
    wrong(fmt::format("{} must have a floating dtype, is {}", rules[i].name, text_of(tensors[i])));
  }
}

DType Infer::expected(const TensorArg& tensor) const {
  // An output that is not allocated yet has no dtype to compare with.
  return expected_dtype(rule(tensor).type, present(tensor) ? tensor.dtype : data_, data_);
}

void Infer::wrong(const std::string& what) const {
  std::string all;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    all += fmt::format("{}{} {}", all.empty() ? "" : ", ", rules_[i].name, text_of(tensors_[i]));
  }
  fail("{}: {} ({})", operation_, what, all);
}

void Infer::backed(const TensorArg& tensor) const {
  if (tensor.address == nullptr && tensor.elements() != 0) [[unlikely]] {
    wrong(fmt::format("{} has no memory", name(tensor)));
  }
}

// Texts are made only when they are needed: these checks stand before every launch.
void Infer::rank(const TensorArg& tensor, int rank) const {
  if (tensor.rank != rank) [[unlikely]] {
    wrong(fmt::format("{} must have {} dimension{}, is {}",
                      name(tensor),
                      rank,
                      rank == 1 ? "" : "s",
                      text_of(tensor)));
  }
  backed(tensor);
}

void Infer::type(const TensorArg& tensor) const {
  if (tensor.dtype != expected(tensor)) [[unlikely]] {
    wrong(fmt::format(
        "{} must be {}, is {}", name(tensor), dtype_name(expected(tensor)), text_of(tensor)));
  }
}

void Infer::dense(const TensorArg& tensor) const {
  if (!tensor.is_dense()) [[unlikely]] {
    wrong(fmt::format("{} must be dense, is {} with strides {}",
                      name(tensor),
                      text_of(tensor),
                      strides_of(tensor)));
  }
}

void Infer::unit_inner(const TensorArg& tensor) const {
  const int last = tensor.rank - 1;
  if (last >= 0 && tensor.shape[last] > 1 && tensor.strides[last] != 1) [[unlikely]] {
    wrong(fmt::format("{} must have stride 1 in its last dimension, is {} with strides {}",
                      name(tensor),
                      text_of(tensor),
                      strides_of(tensor)));
  }
}

void Infer::shape(const TensorArg& tensor, const Shape& shape) const {
  const DType dtype = expected(tensor);
  if (has_shape(tensor, shape) && tensor.dtype == dtype) [[likely]] {
    backed(tensor);
    return;
  }
  wrong(fmt::format(
      "{} must be {} {}, is {}", name(tensor), dtype_name(dtype), shape, text_of(tensor)));
}

void Infer::input(const TensorArg& tensor, const Shape& shape) const {
  this->shape(tensor, shape);
  dense(tensor);
}

void Infer::optional(const TensorArg& tensor, const Shape& shape) const {
  if (present(tensor)) input(tensor, shape);
}

void Infer::output(TensorArg& tensor, const Shape& shape) const {
  if (tensor.address == nullptr) {
    describe(tensor, shape, expected(tensor));
  } else {
    input(tensor, shape);
  }
}

void Infer::row_output(TensorArg& tensor, const Shape& shape) const {
  if (tensor.address == nullptr) {
    describe(tensor, shape, expected(tensor));
  } else {
    this->shape(tensor, shape);
    unit_inner(tensor);
  }
}

void Infer::in_place(const TensorArg& tensor, const Shape& shape) const {
  require(present(tensor), "{} is updated in place and must be given", name(tensor));
  input(tensor, shape);
}

void infer_output(TensorArg& out, const Shape& shape, DType dtype, std::string_view operation) {
  if (out.address == nullptr) {
    describe(out, shape, dtype);
    return;
  }
  require(out.dtype == dtype && shape_of(out) == shape && out.is_dense(),
          "{}: out must be {} {} and dense, is {}",
          operation,
          dtype_name(dtype),
          shape,
          text_of(out));
}

}  // namespace tessera

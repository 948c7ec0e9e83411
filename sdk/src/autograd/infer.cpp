#include "sdk/src/autograd/infer.hpp"

namespace tessera {
namespace {

bool has_shape(const TensorArg& tensor, const Shape& shape) {
  if (tensor.rank != shape.rank()) return false;
  for (int i = 0; i < tensor.rank; ++i) {
    if (tensor.shape[i] != shape[i]) return false;
  }
  return true;
}

void describe(TensorArg& tensor, const Shape& shape, DType dtype) {
  const Shape strides = dense_strides(shape);
  tensor.dtype = dtype;
  tensor.rank = shape.rank();
  for (int i = 0; i < shape.rank(); ++i) {
    tensor.shape[i] = shape[i];
    tensor.strides[i] = strides[i];
  }
}

Shape strides_of(const TensorArg& tensor) {
  Shape strides;
  for (int i = 0; i < tensor.rank; ++i) strides.push_back(tensor.strides[i]);
  return strides;
}

}  // namespace

Shape shape_of(const TensorArg& tensor) {
  Shape shape;
  for (int i = 0; i < tensor.rank; ++i) shape.push_back(tensor.shape[i]);
  return shape;
}

bool is_dense(const TensorArg& tensor) {
  i64 stride = 1;
  for (int i = tensor.rank - 1; i >= 0; --i) {
    if (tensor.shape[i] == 0) return true;
    if (tensor.shape[i] != 1 && tensor.strides[i] != stride) {
      return tensor.elements() == 0;  // an outer dimension may be empty
    }
    stride *= tensor.shape[i];
  }
  return true;
}

std::string text_of(const TensorArg& tensor) {
  if (!present(tensor)) return "absent";
  return fmt::format("{} {}", dtype_name(tensor.dtype), shape_of(tensor));
}

std::string_view Infer::name(const TensorArg& tensor) const {
  for (const NamedArg& named : tensors_) {
    if (named.tensor == &tensor) return named.name;
  }
  return "a tensor";
}

void Infer::wrong(const std::string& what) const {
  std::string all;
  for (const NamedArg& named : tensors_) {
    all += fmt::format("{}{} {}", all.empty() ? "" : ", ", named.name, text_of(*named.tensor));
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

void Infer::floating(const TensorArg& tensor) const {
  if (!is_floating(tensor.dtype)) [[unlikely]] {
    wrong(fmt::format("{} must have a floating dtype, is {}", name(tensor), text_of(tensor)));
  }
}

void Infer::dense(const TensorArg& tensor) const {
  if (!is_dense(tensor)) [[unlikely]] {
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

void Infer::shape(const TensorArg& tensor, const Shape& shape, DType dtype) const {
  if (has_shape(tensor, shape) && tensor.dtype == dtype) [[likely]] {
    backed(tensor);
    return;
  }
  wrong(fmt::format(
      "{} must be {} {}, is {}", name(tensor), dtype_name(dtype), shape, text_of(tensor)));
}

void Infer::input(const TensorArg& tensor, const Shape& shape, DType dtype) const {
  this->shape(tensor, shape, dtype);
  dense(tensor);
}

void Infer::optional(const TensorArg& tensor, const Shape& shape, DType dtype) const {
  if (present(tensor)) input(tensor, shape, dtype);
}

void Infer::output(TensorArg& tensor, const Shape& shape, DType dtype) const {
  if (tensor.address == nullptr) {
    describe(tensor, shape, dtype);
  } else {
    input(tensor, shape, dtype);
  }
}

void Infer::row_output(TensorArg& tensor, const Shape& shape, DType dtype) const {
  if (tensor.address == nullptr) {
    describe(tensor, shape, dtype);
  } else {
    this->shape(tensor, shape, dtype);
    unit_inner(tensor);
  }
}

void Infer::in_place(const TensorArg& tensor, const Shape& shape, DType dtype) const {
  require(present(tensor), "{} is updated in place and must be given", name(tensor));
  input(tensor, shape, dtype);
}

void infer_output(TensorArg& out, const Shape& shape, DType dtype, std::string_view operation) {
  const NamedArg tensors[] = {{"out", &out}};
  Infer(operation, tensors).output(out, shape, dtype);
}

}  // namespace tessera

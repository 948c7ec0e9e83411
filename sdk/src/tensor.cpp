#include "tessera/tensor.hpp"

#include "tessera/device/device.hpp"
#include "tessera/error.hpp"

namespace tessera {

/// Owns one block; the last handle gives it back.
struct Tensor::Storage {
  Storage(Device& device, Pool& pool) : device(device), pool(pool) {}
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  ~Storage() {
    if (block.address) pool.release(block);
  }
  Device& device;
  Pool& pool;
  Block block;
};

Tensor Tensor::allocate(Device& device,
                        Pool& pool,
                        Stream& stream,
                        const Shape& shape,
                        DType dtype,
                        Category category) {
  i64 bytes = dtype_size(dtype);
  for (const i64 size : shape) {
    require(size >= 0 && !__builtin_mul_overflow(bytes, size, &bytes),
            "a tensor cannot have shape {}",
            shape);
  }
  Tensor tensor;
  tensor.storage_ = std::make_shared<Storage>(device, pool);
  tensor.storage_->block = pool.allocate(bytes, category, stream);
  tensor.shape_ = shape;
  tensor.strides_ = dense_strides(shape);
  tensor.dtype_ = dtype;
  return tensor;
}

bool Tensor::dense() const {
  i64 stride = 1;
  for (int dim = rank() - 1; dim >= 0; --dim) {
    if (shape_[dim] == 0) return true;
    if (shape_[dim] != 1 && strides_[dim] != stride) return false;
    stride *= shape_[dim];
  }
  return true;
}

Device& Tensor::device() const {
  require(defined(), "an undefined tensor is on no device");
  return storage_->device;
}

Tensor Tensor::view(const Shape& shape) const {
  require(defined(), "view of an undefined tensor as {}", shape);
  require(
      dense(), "view of {} as {}: strides {} are not dense; copy it first", *this, shape, strides_);
  require(shape.elements() == elements(),
          "view of {} as {}: {} elements, not {}",
          *this,
          shape,
          elements(),
          shape.elements());
  Tensor result = *this;
  result.shape_ = shape;
  result.strides_ = dense_strides(shape);
  result.var_ = {};
  return result;
}

Tensor Tensor::reinterpret(i64 begin, const Shape& shape, DType dtype) const {
  const i64 size = dtype_size(dtype), bytes = shape.elements() * size;
  require(defined() && dtype_ == DType::u8 && dense(),
          "{} as {} {}: only a dense u8 tensor can be read as another type",
          *this,
          dtype_name(dtype),
          shape);
  require(begin >= 0 && begin % size == 0 && begin <= this->bytes() - bytes,
          "{} from byte {} on as {} {}: outside, or not aligned",
          *this,
          begin,
          dtype_name(dtype),
          shape);
  Tensor result = *this;
  result.offset_ += begin;
  result.shape_ = shape;
  result.strides_ = dense_strides(shape);
  result.dtype_ = dtype;
  result.var_ = {};
  return result;
}

Tensor Tensor::slice(int dim, i64 begin, i64 length) const {
  require(defined(), "slice of an undefined tensor");
  require(begin >= 0 && length >= 0 && begin <= shape_[dim] - length,
          "slice [{}, {}) of dimension {} of {} is outside",
          begin,
          begin + length,
          dim,
          *this);
  Tensor result = *this;
  result.offset_ += begin * strides_[dim] * dtype_size(dtype_);
  result.shape_[dim] = length;
  result.var_ = {};
  return result;
}

TensorArg Tensor::arg() const {
  TensorArg arg;
  if (!defined()) return arg;
  arg.address = static_cast<std::byte*>(storage_->block.address) + offset_;
  arg.dtype = dtype_;
  arg.rank = rank();
  std::copy(shape_.begin(), shape_.end(), arg.shape);
  std::copy(strides_.begin(), strides_.end(), arg.strides);
  return arg;
}

bool Tensor::sole_owner() const { return storage_.use_count() == 1; }

Tensor Tensor::with_var(Var var) const {
  Tensor result = *this;
  result.var_ = var;
  return result;
}

std::string Tensor::text() const {
  return defined() ? fmt::format("{} {}", dtype_name(dtype_), shape_) : "undefined";
}

}  // namespace tessera

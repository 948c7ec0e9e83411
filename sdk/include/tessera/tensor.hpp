#pragma once
#include <memory>
#include <string>

#include "tessera/base/memory.hpp"
#include "tessera/types.hpp"

namespace tessera {

class Device;

/// A tensor as a launch sees it: plain data, trivially copyable, recorded by graphs.
struct TensorArg {
  void* address = nullptr;  ///< of the first element; nullptr when the tensor is absent
  DType dtype = DType::fp32;
  i32 rank = 0;
  i64 shape[kMaxRank] = {};
  i64 strides[kMaxRank] = {};  ///< in elements

  explicit operator bool() const { return address != nullptr; }
  template <class T>
  T* as() const {
    return static_cast<T*>(address);
  }
  i64 elements() const {
    i64 n = 1;
    for (int i = 0; i < rank; ++i) n *= shape[i];
    return n;
  }
  i64 bytes() const { return *this ? elements() * dtype_size(dtype) : 0; }
  /// Whether its elements lie one after the other in the order of its dimensions.
  bool is_dense() const {
    i64 stride = 1;
    for (int i = rank - 1; i >= 0; --i) {
      if (shape[i] != 1 && strides[i] != stride) return elements() == 0;  // strides mean nothing
      stride *= shape[i];
    }
    return true;
  }
};

/// Names a value on the tape: which frame recorded it and as which value. 0 means untracked.
struct Var {
  u32 frame = 0;
  u32 index = 0;
  explicit operator bool() const { return frame != 0; }
  bool operator==(const Var&) const = default;
};

/// A cheap, copyable handle: storage, shape, strides, dtype. Copies share memory; the memory
/// returns to its pool when the last handle goes. There is no data(): kernels get addresses through
/// arg(), the host reads and writes values through Device::read and Device::write.
/// Used on one rank's thread.
class TESSERA_API Tensor {
 public:
  Tensor() = default;  ///< undefined: no storage

  /// Allocates a dense tensor; the values are not initialised.
  static Tensor allocate(Device& device,
                         Pool& pool,
                         Stream& stream,
                         const Shape& shape,
                         DType dtype,
                         Category category);

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  const Shape& strides() const { return strides_; }
  i64 dim(int i) const { return shape_[i]; }  ///< negative counts from the end
  int rank() const { return shape_.rank(); }
  DType dtype() const { return dtype_; }
  i64 elements() const { return shape_.elements(); }
  i64 bytes() const { return elements() * dtype_size(dtype_); }
  bool dense() const;
  Device& device() const;

  /// The same memory with another shape; needs a dense tensor and as many elements. Untracked: on
  /// tracked values use ops::reshape.
  Tensor view(const Shape& shape) const;
  /// A part of the memory of a dense u8 tensor as a tensor of another dtype: from byte `begin` on,
  /// which is a multiple of the dtype's size. Untracked. For inputs of many dtypes that arrive in
  /// one copy.
  Tensor reinterpret(i64 begin, const Shape& shape, DType dtype) const;
  /// Elements [begin, begin + length) along `dim`, sharing memory. Untracked.
  Tensor slice(int dim, i64 begin, i64 length) const;

  /// The tensor as a launch takes it.
  TensorArg arg() const;
  /// True when no other handle shares the storage: its memory may be written in place.
  bool sole_owner() const;

  /// Tape bookkeeping; a layer never needs it.
  Var var() const { return var_; }
  Tensor with_var(Var var) const;

  /// "fp32 [8, 256]"; "undefined". For errors.
  std::string text() const;

  /// Keeps the memory alive, without shape and type.
  std::shared_ptr<const void> memory() const { return storage_; }

 private:
  struct Storage;
  std::shared_ptr<Storage> storage_;
  i64 offset_ = 0;
  Shape shape_, strides_;
  DType dtype_ = DType::fp32;
  Var var_;
};

}  // namespace tessera

template <>
struct fmt::formatter<tessera::Tensor> : tessera::TextFormatter<tessera::Tensor> {};

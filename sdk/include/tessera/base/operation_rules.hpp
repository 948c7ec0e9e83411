#pragma once
#include <array>
#include <initializer_list>
#include <string>
#include <string_view>

#include "tessera/base/api.hpp"
#include "tessera/tensor.hpp"

namespace tessera {

/// A set of dtypes.
class DTypes {
 public:
  constexpr DTypes(std::initializer_list<DType> dtypes) {
    for (const DType dtype : dtypes) bits_ |= bit(dtype);
  }
  constexpr bool contains(DType dtype) const { return (bits_ & bit(dtype)) != 0; }
  /// "fp64, fp32".
  TESSERA_API std::string text() const;

 private:
  static constexpr u32 bit(DType dtype) { return 1U << static_cast<u32>(dtype); }
  u32 bits_ = 0;
};
inline constexpr DTypes kFloatingDTypes{DType::fp64, DType::fp32, DType::fp16, DType::bf16};
inline constexpr DTypes kAllDTypes{DType::fp64,
                                   DType::fp32,
                                   DType::fp16,
                                   DType::bf16,
                                   DType::i64,
                                   DType::i32,
                                   DType::u8,
                                   DType::boolean};

/// Which dtypes a tensor of an operation may have.
enum class TypeRule : u8 {
  data,         ///< the operation's: one floating dtype for all its tensors of this rule
  statistic,    ///< the data's, never narrower than fp32: means, maxima, sums of exponentials
  accumulator,  ///< sums of gradients: the data's, or fp32 where the data is narrower
  floating,     ///< a floating dtype of its own
  any,          ///< a dtype of its own
  doubles,      ///< fp64
  integers,     ///< i64
  indices,      ///< i32: experts and places of rows
  mask,         ///< u8
  bytes,        ///< u8: a form of the device's own
};

/// A tensor of an operation: what errors call it, and its dtype. An operation lists them in the
/// order of its arguments, as `static constexpr TensorRule kRules[]`; `infer`, kernels and launches
/// read them there.
struct TensorRule {
  std::string_view name;
  TypeRule type;
};

/// The work of one launch, computed from its arguments' shapes. The planner derives time from it.
struct Effort {
  double flops = 0;           ///< of matrix products and attention; 0 for what only moves bytes
  DType dtype = DType::fp32;  ///< in which they are done
  std::array<double, kDTypes> bytes{};  ///< read and written, by dtype

  /// Counts a tensor that is read or written once; an absent one moves nothing.
  Effort& moves(const TensorArg& tensor) {
    bytes[static_cast<std::size_t>(tensor.dtype)] += static_cast<double>(tensor.bytes());
    return *this;
  }
  double total_bytes() const {
    double sum = 0;
    for (const double part : bytes) sum += part;
    return sum;
  }
};

/// The effort of an operation that states none: no FLOPs, and each of `count` tensors moved once.
/// `dtype` is that of the first floating tensor.
TESSERA_API Effort effort_of_tensors(const TensorArg* tensors, int count);

}  // namespace tessera

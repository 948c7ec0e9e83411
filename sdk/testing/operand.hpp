#pragma once
#include <string>
#include <utility>
#include <vector>

#include "tessera/device/device.hpp"
#include "tessera/tensor.hpp"

namespace tessera::testing {

/// How an operand lies in memory. Around and between its elements there is filling, NaN for
/// floating dtypes: a kernel that reads it shows in the result, one that writes it is found out.
enum class InMemory : u8 {
  dense,       ///< aligned, filling before and after
  padded,      ///< every dimension longer than used, not aligned; the last one still has stride 1
  transposed,  ///< dimensions stored in reverse order
};

/// One tensor of an operation under test, as values on the host. The same operand is placed on
/// every device that is compared.
struct TESSERA_API Operand {
  enum class Kind : u8 {
    absent,  ///< an optional tensor that is not there
    given,   ///< with values; outputs that are updated or have strides are given, too
    result,  ///< an output that infer describes
    alias,   ///< the memory of another operand
  } kind = Kind::absent;
  Shape shape = {};
  DType dtype = DType::fp32;
  InMemory in_memory = InMemory::dense;
  std::vector<double> values = {};  ///< row-major, however it lies in memory
  int of = -1;                      ///< which operand an alias is

  static Operand absent() { return {}; }
  /// Rounds the values to the dtype.
  static Operand given(const Shape& shape, DType dtype, std::vector<double> values);
  /// Uniform in [low, high).
  static Operand random(
      const Shape& shape, DType dtype, u64 seed, double low = -1, double high = 1);
  /// Uniform integers in [low, high).
  static Operand integers(const Shape& shape, DType dtype, u64 seed, i64 low, i64 high);
  static Operand result();
  static Operand alias(int of);
  /// An output that the caller provides; filled with NaN.
  static Operand blank(const Shape& shape, DType dtype);
  Operand in(InMemory how) &&;
};

/// An operand in the memory of a device.
class TESSERA_API PlacedOperand {
 public:
  PlacedOperand(Device& device, const Operand& operand);
  const TensorArg& arg() const { return arg_; }
  struct Contents {
    std::vector<double> values;   ///< row-major
    bool filling_intact = false;  ///< nothing was written but the elements
  };
  /// What is in memory now. Waits for the device.
  Contents read() const;

 private:
  Device* device_;
  Tensor storage_;  // flat, elements and filling
  i64 offset_ = 0;  // of the first element, in elements
  TensorArg arg_;
  std::vector<std::byte> before_;
};

/// One element as bytes of a dtype and back.
TESSERA_API void encode(double value, DType dtype, std::byte* to);
TESSERA_API double decode(const std::byte* from, DType dtype);

}  // namespace tessera::testing

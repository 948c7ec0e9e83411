#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

#include "tessera/base/api.hpp"
#include "tessera/base/format.hpp"

namespace tessera {

using i64 = std::int64_t;
using i32 = std::int32_t;
using u64 = std::uint64_t;
using u32 = std::uint32_t;
using u8 = std::uint8_t;

/// Element types. Floating types are ordered before integers; `boolean` is one byte, 0 or 1.
enum class DType : u8 { fp64, fp32, fp16, bf16, i64, i32, u8, boolean };
inline constexpr int kDTypes = 8;

/// Bytes of one element.
TESSERA_API i64 dtype_size(DType dtype);
/// "fp32", "bf16", …: the spelling in configurations, errors and checkpoints.
TESSERA_API std::string_view dtype_name(DType dtype);
/// The inverse of dtype_name; throws Error naming the known ones.
TESSERA_API DType parse_dtype(std::string_view name);
TESSERA_API bool is_floating(DType dtype);

/// Most dimensions that a tensor can have.
inline constexpr int kMaxRank = 6;

/// A list of up to kMaxRank sizes held in place, so that copying a tensor handle never allocates.
/// Used for shapes (outermost dimension first) and for strides (in elements).
class TESSERA_API Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<i64> sizes);
  int rank() const { return rank_; }
  i64& operator[](int dim) { return sizes_[static_cast<std::size_t>(index(dim))]; }
  i64 operator[](int dim) const { return sizes_[static_cast<std::size_t>(index(dim))]; }
  void push_back(i64 size);
  const i64* begin() const { return sizes_.data(); }
  const i64* end() const { return sizes_.data() + rank_; }
  /// Product of all sizes; 1 for rank 0.
  i64 elements() const;
  bool operator==(const Shape& other) const;
  /// "[8, 256, 384]"
  std::string text() const;

 private:
  int index(int dim) const;  // negative counts from the end; throws Error out of range
  std::array<i64, kMaxRank> sizes_{};
  int rank_ = 0;
};

/// Strides, in elements, of a dense tensor of this shape in row-major order.
TESSERA_API Shape dense_strides(const Shape& shape);

}  // namespace tessera

template <>
struct fmt::formatter<tessera::Shape> : tessera::TextFormatter<tessera::Shape> {};

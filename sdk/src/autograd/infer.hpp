#pragma once
#include <span>
#include <string>
#include <string_view>

#include "tessera/error.hpp"
#include "tessera/tensor.hpp"

namespace tessera {

/// A tensor of an operation and what its header calls it.
struct NamedArg {
  std::string_view name;
  const TensorArg* tensor;
};

/// The checks of one `infer`. Every error names the operation and prints all of its tensors:
/// "add: b must be f32 [2, 3], is f32 [2, 4] (a f32 [2, 3], b f32 [2, 4], out absent)".
/// Allocates nothing unless it throws: it runs before every launch.
class Infer {
 public:
  /// `tensors` stays with the caller.
  Infer(std::string_view operation, std::span<const NamedArg> tensors)
      : operation_(operation), tensors_(tensors) {}

  void rank(const TensorArg& tensor, int rank) const;
  void floating(const TensorArg& tensor) const;
  void dense(const TensorArg& tensor) const;
  /// Elements of the last dimension lie side by side.
  void unit_inner(const TensorArg& tensor) const;
  /// Shape and dtype, any strides.
  void shape(const TensorArg& tensor, const Shape& shape, DType dtype) const;

  /// A dense input of exactly this shape and dtype.
  void input(const TensorArg& tensor, const Shape& shape, DType dtype) const;
  /// The same for an input that may be absent.
  void optional(const TensorArg& tensor, const Shape& shape, DType dtype) const;
  /// A dense output: one without an address is described here, for its allocation; one with an
  /// address is checked.
  void output(TensorArg& tensor, const Shape& shape, DType dtype) const;
  /// The same for an output that may have strides, inner one apart, when the caller provides it.
  void row_output(TensorArg& tensor, const Shape& shape, DType dtype) const;
  /// An output that is read as well, so that the caller must provide it.
  void in_place(const TensorArg& tensor, const Shape& shape, DType dtype) const;

  template <class... T>
  void require(bool condition, fmt::format_string<T...> text, T&&... values) const {
    if (!condition) [[unlikely]] {
      wrong(fmt::format(text, std::forward<T>(values)...));
    }
  }
  [[noreturn]] void wrong(const std::string& what) const;

 private:
  void backed(const TensorArg& tensor) const;
  std::string_view name(const TensorArg& tensor) const;

  std::string_view operation_;
  std::span<const NamedArg> tensors_;
};

/// Is there such a tensor? Optional ones are absent with rank 0.
inline bool present(const TensorArg& tensor) { return tensor.rank > 0; }
Shape shape_of(const TensorArg& tensor);
bool is_dense(const TensorArg& tensor);
/// Of means, maxima and sums of exponentials: the data's dtype, never narrower than f32.
inline DType statistic_dtype(DType data) { return data == DType::f64 ? DType::f64 : DType::f32; }
/// "f32 [2, 3]"; "absent"
std::string text_of(const TensorArg& tensor);

}  // namespace tessera

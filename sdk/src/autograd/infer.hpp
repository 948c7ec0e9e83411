#pragma once
#include <span>
#include <string>
#include <string_view>

#include "sdk/src/type_rules.hpp"
#include "tessera/error.hpp"

namespace tessera {

/// The checks of one `infer`. Names of tensors and their dtypes are the operation's rules. Every
/// error names the operation and prints all of its tensors:
/// "add: b must be fp32 [2, 3], is fp32 [2, 4] (a fp32 [2, 3], b fp32 [2, 4], out absent)".
/// Allocates nothing unless it throws: it runs before every launch.
class Infer {
 public:
  /// `args` stays with the caller. The data must be floating.
  template <class Args>
  explicit Infer(const Args& args)
      : Infer(Args::kName, Args::kRules, reinterpret_cast<const TensorArg*>(&args)) {}
  Infer(std::string_view operation, std::span<const TensorRule> rules, const TensorArg* tensors);

  void rank(const TensorArg& tensor, int rank) const;
  void dense(const TensorArg& tensor) const;
  /// Elements of the last dimension lie side by side.
  void unit_inner(const TensorArg& tensor) const;
  void type(const TensorArg& tensor) const;
  /// Checks shape and dtype, any strides.
  void shape(const TensorArg& tensor, const Shape& shape) const;

  /// A dense input of exactly this shape, and of its dtype.
  void input(const TensorArg& tensor, const Shape& shape) const;
  /// The same for an input that may be absent.
  void optional(const TensorArg& tensor, const Shape& shape) const;
  /// A dense output: one without an address is described here, for its allocation; one with an
  /// address is checked.
  void output(TensorArg& tensor, const Shape& shape) const;
  /// The same for an output that may have strides, inner one apart, when the caller provides it.
  void row_output(TensorArg& tensor, const Shape& shape) const;
  /// An output that is read as well, so that the caller must provide it.
  void in_place(const TensorArg& tensor, const Shape& shape) const;

  template <class... T>
  void require(bool condition, fmt::format_string<T...> text, T&&... values) const {
    if (!condition) [[unlikely]] {
      wrong(fmt::format(text, std::forward<T>(values)...));
    }
  }
  [[noreturn]] void wrong(const std::string& what) const;

 private:
  void backed(const TensorArg& tensor) const;
  const TensorRule& rule(const TensorArg& tensor) const { return rules_[&tensor - tensors_]; }
  std::string_view name(const TensorArg& tensor) const { return rule(tensor).name; }
  DType expected(const TensorArg& tensor) const;

  std::string_view operation_;
  std::span<const TensorRule> rules_;
  const TensorArg* tensors_;
  DType data_;
};

/// Is there such a tensor? Optional ones are absent with rank 0.
inline bool present(const TensorArg& tensor) { return tensor.rank > 0; }
Shape shape_of(const TensorArg& tensor);
/// Makes it a dense tensor of this shape, whose address is still to come.
void describe(TensorArg& tensor, const Shape& shape, DType dtype);
/// "fp32 [2, 3]"; "absent"
std::string text_of(const TensorArg& tensor);

}  // namespace tessera

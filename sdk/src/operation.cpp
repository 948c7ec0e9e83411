#include "tessera/operation.hpp"

#include <algorithm>

#include "sdk/src/type_rules.hpp"

namespace tessera {
namespace {

constexpr DType kEvery[] = {DType::fp64,
                            DType::fp32,
                            DType::fp16,
                            DType::bf16,
                            DType::i64,
                            DType::i32,
                            DType::u8,
                            DType::boolean};
static_assert(std::size(kEvery) == kDTypes);

/// Does the rule leave it to the kernel which dtypes it has?
bool is_open(TypeRule rule) {
  return rule != TypeRule::doubles && rule != TypeRule::integers && rule != TypeRule::indices &&
         rule != TypeRule::mask && rule != TypeRule::bytes;
}

std::string name_of(const Kernel& kernel, int tensor) {
  return kernel.rules != nullptr ? std::string(kernel.rules[tensor].name)
                                 : fmt::format("tensor {}", tensor);
}

}  // namespace

std::string DTypes::text() const {
  std::string text;
  for (const DType dtype : kEvery) {
    if (contains(dtype)) text += fmt::format("{}{}", text.empty() ? "" : ", ", dtype_name(dtype));
  }
  return text;
}

DType data_dtype(const TensorRule* rules, const TensorArg* tensors, int count) {
  for (const TypeRule leading : {TypeRule::data, TypeRule::statistic}) {
    for (int i = 0; i < count; ++i) {
      if (rules[i].type == leading && tensors[i].rank > 0) return tensors[i].dtype;
    }
  }
  return DType::fp32;
}

DType expected_dtype(TypeRule rule, DType own, DType data) {
  switch (rule) {
    case TypeRule::data:
      return data;
    case TypeRule::statistic:
      return statistic_dtype(data);
    case TypeRule::accumulator:
      return own == statistic_dtype(data) ? own : data;
    case TypeRule::floating:
      return is_floating(own) ? own : data;
    case TypeRule::any:
      return own;
    case TypeRule::doubles:
      return DType::fp64;
    case TypeRule::integers:
      return DType::i64;
    case TypeRule::indices:
      return DType::i32;
    case TypeRule::mask:
    case TypeRule::bytes:
      return DType::u8;
  }
  return data;
}

void check_types(const Kernel& kernel, const void* args, std::string_view device) {
  const auto* tensors = static_cast<const TensorArg*>(args);
  const DType data =
      kernel.rules != nullptr ? data_dtype(kernel.rules, tensors, kernel.tensors) : DType::fp32;
  for (int i = 0; i < kernel.tensors; ++i) {
    const TensorArg& tensor = tensors[i];
    if (!tensor) continue;
    const TypeRule rule = kernel.rules != nullptr ? kernel.rules[i].type : TypeRule::any;
    const DType expected = expected_dtype(rule, tensor.dtype, data);
    // Texts are made only when they are needed: this stands before every launch.
    if (tensor.dtype != expected) [[unlikely]] {
      fail("{}: {} must be {} where the data is {}, is {}",
           kernel.operation,
           name_of(kernel, i),
           dtype_name(expected),
           dtype_name(data),
           dtype_name(tensor.dtype));
    }
    if (!kernel.dtypes.contains(tensor.dtype) && is_open(rule)) [[unlikely]] {
      fail("{} on the device \"{}\" takes {} for {}, not {}: choose another precision or device",
           kernel.operation,
           device,
           kernel.dtypes.text(),
           name_of(kernel, i),
           dtype_name(tensor.dtype));
    }
  }
}

Effort effort_of_tensors(const TensorArg* tensors, int count) {
  Effort effort;
  const auto* end = tensors + count;
  const auto* first =
      std::find_if(tensors, end, [](const TensorArg& t) { return t && is_floating(t.dtype); });
  if (first != end) effort.dtype = first->dtype;
  std::for_each(tensors, end, [&](const TensorArg& tensor) { effort.moves(tensor); });
  return effort;
}

}  // namespace tessera

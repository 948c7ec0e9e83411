#include "tessera/types.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/base/memory.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {
namespace {

struct DTypeInfo {
  DType dtype;
  std::string_view name;
  i64 size;
  bool floating;
};

constexpr DTypeInfo kInfos[] = {
    {DType::fp64, "fp64", 8, true},
    {DType::fp32, "fp32", 4, true},
    {DType::fp16, "fp16", 2, true},
    {DType::bf16, "bf16", 2, true},
    {DType::i64, "i64", 8, false},
    {DType::i32, "i32", 4, false},
    {DType::u8, "u8", 1, false},
    {DType::boolean, "bool", 1, false},
};

const DTypeInfo& info(DType dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  require(index < std::size(kInfos), "{} is not an element type", index);
  return kInfos[index];
}

}  // namespace

i64 dtype_size(DType dtype) { return info(dtype).size; }
std::string_view dtype_name(DType dtype) { return info(dtype).name; }
bool is_floating(DType dtype) { return info(dtype).floating; }

DType parse_dtype(std::string_view name) {
  std::string known;
  for (const DTypeInfo& entry : kInfos) {
    if (entry.name == name) return entry.dtype;
    known += known.empty() ? "" : ", ";
    known += entry.name;
  }
  fail("{} is not an element type; there are {}", quote(name), known);
}

std::string_view category_name(Category category) {
  switch (category) {
    case Category::parameters:
      return "parameters";
    case Category::gradients:
      return "gradients";
    case Category::optimizer:
      return "optimizer";
    case Category::activations:
      return "activations";
    case Category::communication:
      return "communication";
    case Category::graph:
      return "graph";
    case Category::workspace:
      return "workspace";
  }
  fail("{} is not a memory category", static_cast<int>(category));
}

Shape::Shape(std::initializer_list<i64> sizes) {
  for (const i64 size : sizes) push_back(size);
}

void Shape::push_back(i64 size) {
  require(rank_ < kMaxRank, "a shape has at most {} dimensions: {} has no room", kMaxRank, *this);
  sizes_[static_cast<std::size_t>(rank_++)] = size;
}

int Shape::index(int dim) const {
  const int at = dim < 0 ? dim + rank_ : dim;
  require(at >= 0 && at < rank_, "shape {} has no dimension {}", *this, dim);
  return at;
}

i64 Shape::elements() const {
  i64 count = 1;
  for (const i64 size : *this) count *= size;
  return count;
}

bool Shape::operator==(const Shape& other) const {
  return std::equal(begin(), end(), other.begin(), other.end());
}

std::string Shape::text() const { return fmt::format("[{}]", fmt::join(begin(), end(), ", ")); }

Shape dense_strides(const Shape& shape) {
  Shape strides = shape;
  i64 stride = 1;
  for (int dim = shape.rank() - 1; dim >= 0; --dim) {
    strides[dim] = stride;
    stride *= std::max<i64>(shape[dim], 1);
  }
  return strides;
}

}  // namespace tessera

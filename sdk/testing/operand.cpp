#include "operand.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "tessera/error.hpp"
#include "tessera/random.hpp"

namespace tessera::testing {
namespace {

constexpr i64 kFillingBytes = 64;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// What has no type of its own in C++.
struct Bf16 {
  std::uint16_t bits;
};
struct Boolean {
  u8 is;
};

std::uint16_t upper_half(float value) {
  const u32 bits = std::bit_cast<u32>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

template <class T>
T element(double value) {
  if constexpr (std::is_same_v<T, Bf16>)
    return {upper_half(static_cast<float>(value))};
  else if constexpr (std::is_same_v<T, Boolean>)
    return {static_cast<u8>(value != 0)};
  else
    return static_cast<T>(value);
}

template <class T>
double value_of(T element) {
  if constexpr (std::is_same_v<T, Bf16>)
    return std::bit_cast<float>(u32{element.bits} << 16);
  else if constexpr (std::is_same_v<T, Boolean>)
    return element.is;
  else
    return static_cast<double>(element);
}

/// Calls f with an element of the dtype, once for all elements of a tensor.
template <class F>
auto with_element(DType dtype, F&& f) {
  switch (dtype) {
    case DType::fp64:
      return f(double{});
    case DType::fp32:
      return f(float{});
    case DType::fp16:
      return f(_Float16{});
    case DType::bf16:
      return f(Bf16{});
    case DType::i64:
      return f(i64{});
    case DType::i32:
      return f(i32{});
    case DType::u8:
      return f(u8{});
    case DType::boolean:
      return f(Boolean{});
  }
  fail("no dtype has the number {}", static_cast<int>(dtype));
}

/// Calls f(number, offset in elements, how many, their stride) for every row of `arg`, in row-major
/// order.
template <class F>
void each_row(const TensorArg& arg, F&& f) {
  const int last = arg.rank - 1;
  const i64 n = arg.elements(), count = last < 0 ? 1 : arg.shape[last];
  const i64 stride = last < 0 ? 1 : arg.strides[last];
  i64 index[kMaxRank] = {}, offset = 0;
  for (i64 number = 0; number < n; number += count) {
    f(number, offset, count, stride);
    for (int d = last - 1; d >= 0; --d) {
      offset += arg.strides[d];
      if (++index[d] < arg.shape[d]) break;
      offset -= arg.strides[d] * std::exchange(index[d], 0);
    }
  }
}

}  // namespace

void encode(double value, DType dtype, std::byte* to) {
  with_element(dtype, [&](auto type) {
    const auto one = element<decltype(type)>(value);
    std::memcpy(to, &one, sizeof one);
  });
}

double decode(const std::byte* from, DType dtype) {
  return with_element(dtype, [&](auto one) {
    std::memcpy(&one, from, sizeof one);
    return value_of(one);
  });
}

Operand Operand::given(const Shape& shape, DType dtype, std::vector<double> values) {
  require(static_cast<i64>(values.size()) == shape.elements(),
          "{} values for an operand of shape {}",
          values.size(),
          shape);
  with_element(dtype, [&](auto type) {
    for (double& value : values) value = value_of(element<decltype(type)>(value));
  });
  return {.kind = Kind::given, .shape = shape, .dtype = dtype, .values = std::move(values)};
}

Operand Operand::random(const Shape& shape, DType dtype, u64 seed, double low, double high) {
  std::vector<double> values(static_cast<std::size_t>(shape.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = low + (high - low) * random_uniform(seed, i);
  }
  return given(shape, dtype, std::move(values));
}

Operand Operand::integers(const Shape& shape, DType dtype, u64 seed, i64 low, i64 high) {
  Operand operand =
      random(shape, DType::fp64, seed, static_cast<double>(low), static_cast<double>(high));
  for (double& value : operand.values) value = std::floor(value);
  return given(shape, dtype, std::move(operand.values));
}

Operand Operand::result() { return {.kind = Kind::result}; }
Operand Operand::alias(int of) { return {.kind = Kind::alias, .of = of}; }

Operand Operand::blank(const Shape& shape, DType dtype) {
  const double value = is_floating(dtype) ? kNaN : 0;
  return given(shape, dtype, std::vector(static_cast<std::size_t>(shape.elements()), value));
}

Operand Operand::in(InMemory how) && {
  in_memory = how;
  return std::move(*this);
}

PlacedOperand::PlacedOperand(Device& device, const Operand& operand) : device_(&device) {
  const int rank = operand.shape.rank();
  arg_.dtype = operand.dtype;
  arg_.rank = rank;
  Shape stored;  // as it lies in memory
  for (int d = 0; d < rank; ++d) {
    i64 size = operand.shape[operand.in_memory == InMemory::transposed ? rank - 1 - d : d];
    if (operand.in_memory == InMemory::padded) size += d == rank - 1 ? 3 : 1;
    stored.push_back(size);
  }
  const Shape strides = dense_strides(stored);
  for (int d = 0; d < rank; ++d) {
    arg_.shape[d] = operand.shape[d];
    arg_.strides[d] = strides[operand.in_memory == InMemory::transposed ? rank - 1 - d : d];
  }

  const i64 size = dtype_size(operand.dtype);
  const i64 filling = kFillingBytes / size;
  offset_ = filling + (operand.in_memory == InMemory::padded ? 1 : 0);
  const i64 total = stored.elements() + 2 * filling + 1;
  storage_ = Tensor::allocate(
      device, device.pool(), device.stream(), {total}, operand.dtype, Category::activations);
  arg_.address = storage_.arg().as<std::byte>() + offset_ * size;

  before_.resize(static_cast<std::size_t>(total * size));
  with_element(operand.dtype, [&](auto type) {
    using T = decltype(type);
    auto* const all = reinterpret_cast<T*>(before_.data());
    std::fill_n(all, total, element<T>(is_floating(operand.dtype) ? kNaN : 77));
    each_row(arg_, [&](i64 number, i64 offset, i64 count, i64 stride) {
      const double* from = operand.values.data() + number;
      T* to = all + offset_ + offset;
      for (i64 i = 0; i < count; ++i) to[i * stride] = element<T>(from[i]);
    });
  });
  device.write(storage_, before_.data());
}

PlacedOperand::Contents PlacedOperand::read() const {
  std::vector<std::byte> now(before_.size());
  device_->read(storage_, now.data());
  Contents contents;
  contents.values.resize(static_cast<std::size_t>(arg_.elements()));
  with_element(arg_.dtype, [&](auto type) {
    using T = decltype(type);
    T* const all = reinterpret_cast<T*>(now.data());
    const auto* const before = reinterpret_cast<const T*>(before_.data());
    each_row(arg_, [&](i64 number, i64 offset, i64 count, i64 stride) {
      double* to = contents.values.data() + number;
      for (i64 i = 0; i < count; ++i) {
        const i64 at = offset_ + offset + i * stride;
        to[i] = value_of(all[at]);
        all[at] = before[at];
      }
    });
  });
  contents.filling_intact = now == before_;
  return contents;
}

}  // namespace tessera::testing

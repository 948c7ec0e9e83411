#include "operand.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "tessera/error.hpp"
#include "tessera/random.hpp"

namespace tessera::testing {
namespace {

constexpr i64 kFillingBytes = 64;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

template <class T>
void put(T value, std::byte* to) {
  std::memcpy(to, &value, sizeof value);
}

template <class T>
T get(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

std::uint16_t upper_half(float value) {
  const u32 bits = std::bit_cast<u32>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

double rounded(double value, DType dtype) {
  std::byte bytes[8];
  encode(value, dtype, bytes);
  return decode(bytes, dtype);
}

/// Calls f(number, offset in elements) for every element of `arg`, in row-major order.
template <class F>
void each(const TensorArg& arg, F&& f) {
  const i64 n = arg.elements();
  i64 index[kMaxRank] = {}, offset = 0;
  for (i64 number = 0; number < n; ++number) {
    f(static_cast<std::size_t>(number), offset);
    for (int d = arg.rank - 1; d >= 0; --d) {
      offset += arg.strides[d];
      if (++index[d] < arg.shape[d]) break;
      offset -= arg.strides[d] * std::exchange(index[d], 0);
    }
  }
}

}  // namespace

void encode(double value, DType dtype, std::byte* to) {
  switch (dtype) {
    case DType::fp64:
      return put(value, to);
    case DType::fp32:
      return put(static_cast<float>(value), to);
    case DType::fp16:
      return put(static_cast<_Float16>(value), to);
    case DType::bf16:
      return put(upper_half(static_cast<float>(value)), to);
    case DType::i64:
      return put(static_cast<i64>(value), to);
    case DType::i32:
      return put(static_cast<i32>(value), to);
    case DType::u8:
      return put(static_cast<u8>(value), to);
    case DType::boolean:
      return put(static_cast<u8>(value != 0), to);
  }
}

double decode(const std::byte* from, DType dtype) {
  switch (dtype) {
    case DType::fp64:
      return get<double>(from);
    case DType::fp32:
      return get<float>(from);
    case DType::fp16:
      return static_cast<double>(get<_Float16>(from));
    case DType::bf16:
      return std::bit_cast<float>(u32{get<std::uint16_t>(from)} << 16);
    case DType::i64:
      return static_cast<double>(get<i64>(from));
    case DType::i32:
      return get<i32>(from);
    case DType::u8:
    case DType::boolean:
      return get<u8>(from);
  }
  return kNaN;
}

Operand Operand::given(const Shape& shape, DType dtype, std::vector<double> values) {
  require(static_cast<i64>(values.size()) == shape.elements(),
          "{} values for an operand of shape {}",
          values.size(),
          shape);
  for (double& value : values) value = rounded(value, dtype);
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
  std::byte element[8];
  encode(is_floating(operand.dtype) ? kNaN : 77, operand.dtype, element);
  for (auto at = before_.begin(); at != before_.end();) at = std::copy_n(element, size, at);
  each(arg_, [&](std::size_t number, i64 offset) {
    encode(operand.values[number], operand.dtype, before_.data() + (offset_ + offset) * size);
  });
  device.write(storage_, before_.data());
}

std::vector<std::byte> PlacedOperand::bytes() const {
  std::vector<std::byte> now(before_.size());
  device_->read(storage_, now.data());
  return now;
}

std::vector<double> PlacedOperand::read() const {
  const std::vector<std::byte> now = bytes();
  const i64 size = dtype_size(arg_.dtype);
  std::vector<double> values(static_cast<std::size_t>(arg_.elements()));
  each(arg_, [&](std::size_t number, i64 offset) {
    values[number] = decode(now.data() + (offset_ + offset) * size, arg_.dtype);
  });
  return values;
}

bool PlacedOperand::filling_intact() const {
  std::vector<std::byte> now = bytes();
  const i64 size = dtype_size(arg_.dtype);
  each(arg_, [&](std::size_t, i64 offset) {
    const i64 at = (offset_ + offset) * size;
    std::memcpy(now.data() + at, before_.data() + at, static_cast<std::size_t>(size));
  });
  return now == before_;
}

}  // namespace tessera::testing

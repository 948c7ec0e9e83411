#include "kernel/checkpoint/host_floats.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "tessera/error.hpp"

namespace tessera {

namespace {

template <class T>
T load(std::span<const std::byte> bytes, i64 index) {
  T value;
  std::memcpy(&value, bytes.data() + index * static_cast<i64>(sizeof(T)), sizeof(T));
  return value;
}

// Bits that float cuts off set its last bit, so that the result is rounded once.
std::uint16_t to_bf16(double value) {
  const auto nearest = static_cast<float>(value);
  u32 bits = std::bit_cast<u32>(nearest);
  if (std::isnan(nearest)) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  if (static_cast<double>(nearest) != value) {
    if (std::abs(static_cast<double>(nearest)) > std::abs(value)) --bits;  // towards zero
    bits |= 1U;
  }
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

void store(DType dtype, double value, std::byte* to) {
  const auto put = [&](auto typed) { std::memcpy(to, &typed, sizeof(typed)); };
  switch (dtype) {
    case DType::fp64:
      return put(value);
    case DType::fp32:
      return put(static_cast<float>(value));
    case DType::fp16:
      return put(static_cast<_Float16>(value));
    case DType::bf16:
      return put(to_bf16(value));
    default:
      fail("{} is not a floating dtype", dtype_name(dtype));
  }
}

}  // namespace

double value_at(DType dtype, std::span<const std::byte> bytes, i64 index) {
  switch (dtype) {
    case DType::fp64:
      return load<double>(bytes, index);
    case DType::fp32:
      return load<float>(bytes, index);
    case DType::fp16:
      return static_cast<double>(load<_Float16>(bytes, index));
    case DType::bf16:
      return std::bit_cast<float>(u32{load<std::uint16_t>(bytes, index)} << 16);
    case DType::i64:
      return static_cast<double>(load<i64>(bytes, index));
    case DType::i32:
      return load<i32>(bytes, index);
    case DType::u8:
    case DType::boolean:
      return load<std::uint8_t>(bytes, index);
  }
  fail("a dtype without values");
}

std::vector<std::byte> converted(std::span<const std::byte> bytes, DType from, DType to) {
  if (from == to) return {bytes.begin(), bytes.end()};
  const i64 count = static_cast<i64>(bytes.size()) / dtype_size(from);
  std::vector<std::byte> out(static_cast<std::size_t>(count * dtype_size(to)));
  for (i64 i = 0; i < count; ++i) {
    store(to, value_at(from, bytes, i), out.data() + i * dtype_size(to));
  }
  return out;
}

}  // namespace tessera

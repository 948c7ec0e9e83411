#include "kernel/checkpoint/finite.hpp"

#include <cstdint>
#include <cstring>

namespace tessera {

namespace {

template <class Bits>
bool finite_bits(std::span<const std::byte> bytes, Bits exponent) {
  bool finite = true;
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, bytes.data() + at, sizeof(bits));
    finite &= (bits & exponent) != exponent;
  }
  return finite;
}

}  // namespace

bool all_finite(DType dtype, std::span<const std::byte> bytes) {
  switch (dtype) {
    case DType::fp64:
      return finite_bits<u64>(bytes, 0x7FF0000000000000);
    case DType::fp32:
      return finite_bits<u32>(bytes, 0x7F800000);
    case DType::bf16:
      return finite_bits<std::uint16_t>(bytes, 0x7F80);
    case DType::fp16:
      return finite_bits<std::uint16_t>(bytes, 0x7C00);
    default:
      return true;
  }
}

}  // namespace tessera

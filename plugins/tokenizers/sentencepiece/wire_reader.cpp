#include "wire_reader.hpp"

namespace tessera {

// Seven bits a byte, the lowest first; the last has no eighth.
std::optional<u64> WireReader::number() {
  constexpr std::size_t kMost = 10;
  u64 value = 0;
  for (std::size_t i = 0; i < kMost && i < rest_.size(); ++i) {
    const auto byte = static_cast<unsigned char>(rest_[i]);
    value |= static_cast<u64>(byte & 0x7F) << (7 * i);
    if (byte < 0x80) {
      rest_.remove_prefix(i + 1);
      return value;
    }
  }
  return std::nullopt;
}

std::optional<u64> WireReader::fixed(std::size_t size) {
  if (rest_.size() < size) return std::nullopt;
  u64 value = 0;
  for (std::size_t i = 0; i < size; ++i) {
    value |= static_cast<u64>(static_cast<unsigned char>(rest_[i])) << (8 * i);
  }
  rest_.remove_prefix(size);
  return value;
}

bool WireReader::next(Field& field) {
  if (damaged_ || rest_.empty()) return false;
  damaged_ = true;  // until the field is read
  const std::optional<u64> tag = number();
  if (!tag || *tag >> 3 == 0) return false;
  field = {*tag >> 3, static_cast<u32>(*tag & 7)};
  std::optional<u64> value;
  if (field.type == 1) value = fixed(8);
  if (field.type == 5) value = fixed(4);
  if (field.type == 0 || field.type == 2) value = number();
  if (!value) return false;
  field.value = *value;
  if (field.type == 2) {
    if (*value > rest_.size()) return false;
    field.bytes = rest_.substr(0, *value);
    rest_.remove_prefix(*value);
  }
  damaged_ = false;
  return true;
}

}  // namespace tessera

#include "byte_alphabet.hpp"

#include "tessera/io/utf8.hpp"

namespace tessera {

namespace {

std::string utf8(u32 character) {
  if (character < 0x80) return {static_cast<char>(character)};
  return {static_cast<char>(0xC0 | character >> 6), static_cast<char>(0x80 | (character & 0x3F))};
}

}  // namespace

ByteAlphabet::ByteAlphabet() {
  u32 next = 256;
  for (u32 byte = 0; byte < 256; ++byte) {
    const bool itself =
        (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
    written_[byte] = utf8(itself ? byte : next++);
    bytes_[written_[byte]] = static_cast<char>(byte);
  }
}

std::string ByteAlphabet::written(std::string_view bytes) const {
  std::string text;
  text.reserve(bytes.size());
  for (const char byte : bytes) text += written(static_cast<unsigned char>(byte));
  return text;
}

std::string ByteAlphabet::bytes(const std::string& written) const {
  std::string bytes;
  for (std::size_t at = 0; at < written.size();) {
    const std::size_t length = character_length(std::string_view(written).substr(at));
    const auto found = bytes_.find(written.substr(at, length));
    if (length == 0 || found == bytes_.end()) return written;
    bytes += found->second;
    at += length;
  }
  return bytes;
}

}  // namespace tessera

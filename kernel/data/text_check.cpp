#include "kernel/data/text_check.hpp"

#include <simdjson.h>

#include <algorithm>

#include "tessera/io/utf8.hpp"

namespace tessera {

std::optional<i64> first_no_utf8(std::string_view text) {
  if (simdjson::validate_utf8(text.data(), text.size())) return std::nullopt;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = character_length(text.substr(at));
    if (length == 0) return static_cast<i64>(at);
    at += length;
  }
  return std::nullopt;
}

std::string as_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 16);
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    out += length == 0 ? std::string_view("\xEF\xBF\xBD") : text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

}  // namespace tessera

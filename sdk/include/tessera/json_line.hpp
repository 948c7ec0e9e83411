#pragma once
#include <fmt/core.h>

#include <cmath>
#include <string>
#include <string_view>

#include "tessera/types.hpp"

namespace tessera {

/// Writes one flat JSON object as one line, for files and output that programs read:
///
///     JsonLine().add("step", step).add("loss", loss).text()   {"step":3,"loss":2.5}
///
/// A number reads back as the same double; what is not finite becomes null.
class JsonLine {
 public:
  JsonLine& add(std::string_view key, double value) {
    return raw(key, std::isfinite(value) ? fmt::format("{}", value) : "null");
  }
  JsonLine& add(std::string_view key, i64 value) { return raw(key, fmt::format("{}", value)); }
  JsonLine& add(std::string_view key, bool value) { return raw(key, value ? "true" : "false"); }
  JsonLine& add(std::string_view key, std::string_view value) { return raw(key, quoted(value)); }
  JsonLine& add(std::string_view key, const char* value) {
    return raw(key, quoted(value));  // or a literal would become a bool
  }
  /// Without the newline.
  std::string text() const { return "{" + fields_ + "}"; }

  static std::string quoted(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
      if (c == '"' || c == '\\') {
        out += '\\';
        out += c;
      } else if (static_cast<unsigned char>(c) < 0x20) {
        out += fmt::format("\\u{:04x}", static_cast<int>(c));
      } else {
        out += c;
      }
    }
    return out + '"';
  }

 private:
  JsonLine& raw(std::string_view key, std::string_view value) {
    if (!fields_.empty()) fields_ += ',';
    fields_ += quoted(key);
    fields_ += ':';
    fields_ += value;
    return *this;
  }
  std::string fields_;
};

}  // namespace tessera

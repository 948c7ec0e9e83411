#pragma once
#include <fmt/format.h>

#include <cmath>
#include <string>

#include "tessera/types.hpp"

/// Numbers as people read them.
namespace tessera::human {

/// 1234567 -> "1,234,567"
inline std::string count(i64 value) {
  const std::string digits = fmt::format("{}", value < 0 ? -value : value);
  std::string out = value < 0 ? "-" : "";
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

/// 10795776 -> "10.8 M"
inline std::string size(i64 value) {
  const auto v = static_cast<double>(value);
  if (v >= 1e9) return fmt::format("{:.3g} B", v / 1e9);
  if (v >= 1e6) return fmt::format("{:.3g} M", v / 1e6);
  if (v >= 1e3) return fmt::format("{:.3g} k", v / 1e3);
  return count(value);
}

/// 80.4 -> "1m 20s"
inline std::string duration(double seconds) {
  if (seconds < 9.95) return fmt::format("{:.1f}s", seconds);
  const i64 s = std::lround(seconds);
  if (s < 60) return fmt::format("{}s", s);
  if (s < 3600) return fmt::format("{}m {:02}s", s / 60, s % 60);
  if (s < 86400) return fmt::format("{}h {:02}m", s / 3600, s / 60 % 60);
  return fmt::format("{}d {}h", s / 86400, s / 3600 % 24);
}

/// 0.0003 -> "3.0e-4"
inline std::string scientific(double value) {
  std::string text = fmt::format("{:.1e}", value);
  const std::size_t sign = text.find_first_of("+-", 1);
  if (sign == std::string::npos) return text;  // inf, nan
  if (text[sign + 1] == '0') text.erase(sign + 1, 1);
  if (text[sign] == '+') text.erase(sign, 1);
  return text;
}

}  // namespace tessera::human

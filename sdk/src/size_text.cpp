#include "tessera/io/size_text.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace tessera {

namespace {

std::string short_number(double value, double base, std::array<std::string_view, 7> units) {
  std::size_t unit = 0;
  while (value >= base && unit + 1 < units.size()) value /= base, ++unit;
  const int digits = unit == 0 ? 0 : value < 10 ? 2 : value < 100 ? 1 : 0;
  return fmt::format("{:.{}f}{}{}", value, digits, units[unit].empty() ? "" : " ", units[unit]);
}

}  // namespace

std::string size_text(double bytes) {
  return short_number(bytes, 1024, {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"});
}

std::string short_count(double count) {
  return short_number(count, 1000, {"", "k", "M", "G", "T", "P", "E"});
}

}  // namespace tessera

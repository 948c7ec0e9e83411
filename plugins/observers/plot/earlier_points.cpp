#include "earlier_points.hpp"

#include <charconv>
#include <cmath>
#include <fstream>
#include <optional>
#include <string_view>

namespace tessera {
namespace {

/// The number after `"key":` of a flat JSON object; nothing when it is absent or null.
std::optional<double> number(std::string_view line, std::string_view key) {
  const std::string mark = "\"" + std::string(key) + "\":";
  const std::size_t at = line.find(mark);
  if (at == std::string_view::npos) return std::nullopt;
  double value = 0;
  const auto parsed =
      std::from_chars(line.data() + at + mark.size(), line.data() + line.size(), value);
  if (parsed.ec != std::errc() || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace

void read_earlier_points(const std::string& path, i64 last, Curves& curves) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const auto step = number(line, "step");
    if (!step || !line.ends_with('}')) continue;
    const auto at = static_cast<i64>(*step);
    if (at > last) break;
    if (const auto loss = number(line, "loss")) curves.train.push_back({at, *loss});
    if (const auto loss = number(line, "val_loss")) curves.validation.push_back({at, *loss});
  }
}

}  // namespace tessera

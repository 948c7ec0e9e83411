#include "prefixes.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {
namespace {

std::optional<double> number_in(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec != std::errc() || read.ptr != end) return {};
  return value;
}

}  // namespace

Prefixes read_prefixes(const std::vector<std::string>& values, std::string_view key) {
  Prefixes out;
  if (values.empty()) fail_config("{}: no prefix of a token file is given", key);
  const auto is_number = [](const std::string& text) { return number_in(text).has_value(); };
  if (std::ranges::none_of(values, is_number)) {
    out.paths = values;
    return out;
  }
  if (values.size() % 2 != 0) {
    fail_config("{}: {} values: weights and prefixes come in pairs", key, values.size());
  }
  for (std::size_t i = 0; i < values.size(); i += 2) {
    const std::optional<double> weight = number_in(values[i]);
    if (!weight || is_number(values[i + 1])) {
      fail_config("{}: {} and {}: a weight and then its prefix were expected",
                  key,
                  quote(values[i]),
                  quote(values[i + 1]));
    }
    if (!(*weight > 0) || !std::isfinite(*weight)) {
      fail_config("{}: the weight {} of {} is not above 0", key, values[i], quote(values[i + 1]));
    }
    out.weights.push_back(*weight);
    out.paths.push_back(values[i + 1]);
  }
  return out;
}

}  // namespace tessera

#include "tessera/later_input.hpp"

#include <fmt/format.h>

#include <charconv>

namespace tessera {

std::string later_input(std::string_view field, i64 positions) {
  return positions == 0 ? std::string(field) : fmt::format("{}+{}", field, positions);
}

std::optional<LaterInput> parse_later_input(std::string_view name) {
  const auto plus = name.rfind('+');
  if (plus == std::string_view::npos) return std::nullopt;
  LaterInput input{std::string(name.substr(0, plus))};
  const char* end = name.data() + name.size();
  const auto [read, error] = std::from_chars(name.data() + plus + 1, end, input.positions);
  if (error != std::errc() || read != end || input.positions < 1) return std::nullopt;
  return input;
}

}  // namespace tessera

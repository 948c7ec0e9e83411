#include "kernel/config/choice.hpp"

#include <fmt/format.h>

#include "tessera/error.hpp"

namespace tessera {

std::string choice_text(std::string_view origin, std::string_view path, std::string_view type) {
  const bool written = origin != "default";
  return fmt::format("{}{}[{}] type = \"{}\"{}",
                     written ? origin : "",
                     written ? ": " : "",
                     path,
                     type,
                     written ? "" : " (the default)");
}

void rethrow_at(std::string_view choice, std::string_view doing) {
  using Kind = ErrorFrame::Kind;
  const Error error = error_in_flight();
  const ErrorFrame* const innermost = error.frame(Kind::choice);
  const std::string place(innermost != nullptr ? innermost->text : choice);
  if (place.empty() || error.has(Kind::place)) throw;
  rethrow_with(Kind::place, fmt::format("{}{}", place, doing));
}

}  // namespace tessera

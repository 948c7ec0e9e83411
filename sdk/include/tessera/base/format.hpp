#pragma once
#include <fmt/core.h>

namespace tessera {

/// Base of the fmt formatters of types that have a `text()`, so that a value can be given as it is:
///     require(x.rank() == 2, "expected [rows, features], got {}", x);
/// Its text is made only where it is printed; `x.text()` would be made by each call.
template <class T>
struct TextFormatter : fmt::formatter<fmt::string_view> {
  auto format(const T& value, fmt::format_context& context) const {
    return fmt::formatter<fmt::string_view>::format(value.text(), context);
  }
};

}  // namespace tessera

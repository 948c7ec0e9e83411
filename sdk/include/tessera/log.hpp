#pragma once
#include <fmt/core.h>

#include <string_view>
#include <utility>

#include "tessera/base/api.hpp"
#include "tessera/types.hpp"

namespace tessera {

enum class LogLevel { debug, info, warning, error };

/// Writes one line, "level: text", to standard error. A caller that has a rank names it in the
/// text. Formatting happens in the caller, so that one logger serves host and plugins. Thread-safe.
TESSERA_API void log(LogLevel level, std::string_view text);

/// Number of warnings that this process wrote so far. Thread-safe.
TESSERA_API i64 logged_warnings();

template <class... T>
void log_warning(fmt::format_string<T...> text, T&&... values) {
  log(LogLevel::warning, fmt::format(text, std::forward<T>(values)...));
}
template <class... T>
void log_info(fmt::format_string<T...> text, T&&... values) {
  log(LogLevel::info, fmt::format(text, std::forward<T>(values)...));
}

}  // namespace tessera

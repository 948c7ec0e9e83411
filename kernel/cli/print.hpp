#pragma once
#include <fmt/core.h>

#include <string_view>
#include <utility>

namespace tessera {

/// What commands print. All of it goes through here, because names, texts and paths are somebody
/// else's: no character among them may act on a terminal (`readable`). A lint looks for others.

/// Text for people, on standard output and on standard error. Throws std::system_error when it
/// cannot be written.
void print_text(std::string_view text);
void print_error_text(std::string_view text);

/// Bytes that a program reads: JSON, TOML, what a model wrote. Where standard output is a terminal,
/// they are text for people too.
void print_exact(std::string_view bytes);

template <class... T>
void print(fmt::format_string<T...> text, T&&... values) {
  print_text(fmt::format(text, std::forward<T>(values)...));
}

template <class... T>
void print_error(fmt::format_string<T...> text, T&&... values) {
  print_error_text(fmt::format(text, std::forward<T>(values)...));
}

}  // namespace tessera

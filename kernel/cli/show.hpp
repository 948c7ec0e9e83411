#pragma once
#include <fmt/core.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

namespace tessera {

/// All that commands print goes through here: names, texts and paths may be somebody else's, and
/// none of their characters may act on a terminal (`readable`). A lint looks for other prints.

/// Text for people, on standard output and on standard error. Throws std::system_error when it
/// cannot be written.
void show_text(std::string_view text);
void show_error_text(std::string_view text);

/// Bytes that a program reads: JSON, TOML, what a model wrote. Where standard output is a terminal,
/// they are text for people too.
void show_exact(std::string_view bytes);

/// An error of the file system in our words: "cannot use a/b: Too many levels of symbolic links".
std::string path_error(const std::filesystem::filesystem_error& error);

template <class... T>
void show(fmt::format_string<T...> text, T&&... values) {
  show_text(fmt::format(text, std::forward<T>(values)...));
}

template <class... T>
void show_error(fmt::format_string<T...> text, T&&... values) {
  show_error_text(fmt::format(text, std::forward<T>(values)...));
}

}  // namespace tessera

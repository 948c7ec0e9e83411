#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "tessera/utf8.hpp"
#include "tessera/value.hpp"

namespace tessera {

/// A word that somebody wrote, for an error: on one line and not a page of it, with its quotes.
inline std::string written_word(std::string_view word, std::size_t most = 80) {
  const std::string_view shown = cut_text(word, most);
  return Value(shown).text() + (shown.size() < word.size() ? "..." : "");
}

/// The same without quotes, for what is shown as it stands: a path, a variable's value. In it only
/// control characters are escaped.
inline std::string written_plain(std::string_view text, std::size_t most = 80) {
  const std::string_view shown = cut_text(text, most);
  std::string out;
  for (const char c : shown) {
    if (!is_control(c)) {
      out += c;
      continue;
    }
    const std::string quoted = Value(std::string_view(&c, 1)).text();
    out.append(quoted, 1, quoted.size() - 2);
  }
  return out + (shown.size() < text.size() ? "..." : "");
}

/// A path, which may hold anything but a zero byte.
inline std::string written_path(const std::filesystem::path& path) {
  return written_plain(path.string(), 1000);
}

}  // namespace tessera

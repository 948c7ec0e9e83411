#include "tessera/io/written.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/base/value.hpp"
#include "tessera/io/utf8.hpp"

namespace tessera {

namespace {
constexpr std::size_t kWhole = std::string_view::npos;  // of a line that is cut already
}  // namespace

std::string quote(std::string_view word, std::size_t most) {
  const std::string_view shown = cut_text(word, most);
  return readable(Value(shown).text(), kWhole) + (shown.size() < word.size() ? "..." : "");
}

std::string written_plain(std::string_view text, std::size_t most) {
  const std::string_view shown = cut_text(text, most);
  std::string out;
  for (std::size_t at = 0; at < shown.size();) {
    const std::string_view character = next_character(shown.substr(at));
    at += character.size();
    if (character_length(character) == 0) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(character[0]));
    } else if (acts_on_terminal(character)) {
      const std::string quoted = Value(character).text();
      out.append(quoted, 1, quoted.size() - 2);
    } else {
      out += character;
    }
  }
  return out + (shown.size() < text.size() ? "..." : "");
}

std::string written_path(const std::filesystem::path& path) {
  return written_plain(path.string(), 1000);
}

std::string readable(std::string_view text, std::size_t most) {
  std::string out;
  while (true) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view kept = cut_text(text.substr(0, end), most);
    for (std::size_t at = 0; at < kept.size();) {
      const std::string_view character = next_character(kept.substr(at));
      out += acts_on_terminal(character) && character != "\t" ? "?" : character;
      at += character.size();
    }
    if (kept.size() < end) out += "...";
    if (end == text.size()) return out;
    out += '\n';
    text.remove_prefix(end + 1);
  }
}

}  // namespace tessera

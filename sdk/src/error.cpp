#include "tessera/error.hpp"

#include <algorithm>

#include "tessera/utf8.hpp"

namespace tessera {

namespace {

// Texts hold what users and files wrote: no escape reaches a terminal, and a line is not a page.
std::string readable(std::string_view text) {
  constexpr std::size_t kMostOfALine = 2000;
  std::string out;
  while (true) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view kept = cut_text(text.substr(0, end), kMostOfALine);
    for (const char c : kept) out += is_control(c) && c != '\t' ? '?' : c;
    if (kept.size() < end) out += "...";
    if (end == text.size()) return out;
    out += '\n';
    text.remove_prefix(end + 1);
  }
}

}  // namespace

Error::Error(const std::string& text, int exit_code)
    : std::runtime_error(readable(text)), exit_code_(exit_code) {}
Error::~Error() = default;

ConfigError::ConfigError(const std::string& text) : Error(text, 2) {}
ConfigError::~ConfigError() = default;

void fail_formatted(fmt::string_view text, fmt::format_args values) {
  throw Error(fmt::vformat(text, values));
}
void fail_config_formatted(fmt::string_view text, fmt::format_args values) {
  throw ConfigError(fmt::vformat(text, values));
}

}  // namespace tessera

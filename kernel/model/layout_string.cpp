#include "kernel/model/layout_string.hpp"

#include <algorithm>

#include "tessera/error.hpp"
#include "tessera/io/utf8.hpp"
#include "tessera/io/written.hpp"
#include "tessera/pattern.hpp"

namespace tessera {

namespace {

std::size_t letter(std::string_view rest) {
  const char c = rest.front();
  if (c == 'm') {
    fail_config(
        "\"m\" (multi-token prediction) is left out here: what follows the head is with it");
  }
  if (c != 'E' && c != 't' && c != 'L' && c != '|') {
    const std::size_t bytes = std::max<std::size_t>(1, character_length(rest));
    fail_config("unexpected {}; E, t, L, |, (…) and *n are known", quote(rest.substr(0, bytes)));
  }
  return 1;
}

}  // namespace

std::vector<std::string> parse_layout(std::string_view text) {
  std::vector<std::string> stages{""};
  try {
    for (const std::string& item : expand_pattern(text, &letter)) {
      if (item == "|") {
        stages.emplace_back();
      } else {
        stages.back() += item;
      }
    }
  } catch (const ConfigError& error) {
    constexpr std::size_t kShown = 400;  // the error names a character by its number
    fail_config("[placement] layout = {}: {}", quote(text, kShown), error.what());
  }
  return stages;
}

}  // namespace tessera

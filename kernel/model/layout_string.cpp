#include "kernel/model/layout_string.hpp"

#include "tessera/error.hpp"
#include "tessera/pattern.hpp"

namespace tessera {

namespace {

std::size_t letter(std::string_view rest) {
  const char c = rest.front();
  if (c == 'm') fail_config("no model of this version has layers \"m\" (multi-token prediction)");
  if (c != 'E' && c != 't' && c != 'L' && c != '|') {
    fail_config("unexpected \"{}\"; E, t, L, |, (…) and *n are known", c);
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
    fail_config("[placement] layout = \"{}\": {}", text, error.what());
  }
  return stages;
}

}  // namespace tessera

#include "tessera/error.hpp"

#include "tessera/written.hpp"

namespace tessera {

// Texts hold what users and files wrote.
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

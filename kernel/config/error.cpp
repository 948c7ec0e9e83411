#include "tessera/error.hpp"

namespace tessera {

Error::Error(const std::string& text, int exit_code)
    : std::runtime_error(text), exit_code_(exit_code) {}
Error::~Error() = default;

ConfigError::ConfigError(const std::string& text) : Error(text, 2) {}
ConfigError::~ConfigError() = default;

}  // namespace tessera

#include "kernel/config/version.hpp"

#include <fmt/format.h>

#include "kernel/config/commit.hpp"

namespace tessera {

std::string version_text() { return fmt::format("{}, commit {}", TESSERA_VERSION, TESSERA_COMMIT); }

}  // namespace tessera

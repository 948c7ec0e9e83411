#include "kernel/launch/host_identity.hpp"

#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "kernel/launch/variables.hpp"
#include "tessera/error.hpp"

namespace tessera {

std::string host_identity() {
  const char* given = std::getenv(kHostVariable);
  if (given != nullptr && *given != '\0') return fmt::format("{}={}", kHostVariable, given);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat space {};
  if (boot.empty() || stat("/proc/self/ns/net", &space) != 0) {
    fail(
        "launch: /proc does not tell this host from others: set {} to a name of its own on each "
        "host",
        kHostVariable);
  }
  return fmt::format("boot {}, network {}", boot, space.st_ino);
}

}  // namespace tessera

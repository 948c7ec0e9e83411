#include "kernel/comm/communicators.hpp"

#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "kernel/comm/hosts.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

constexpr const char* kAutomatic = "auto";
constexpr const char* kWithin = "shm";
constexpr const char* kBetween = "gloo";

}  // namespace

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

std::vector<std::string> possible_communicators(const std::string& configured) {
  if (configured != kAutomatic) return {configured};
  return {kWithin, kBetween};
}

CommunicatorChoice choose_communicators(const std::string& configured,
                                        const std::vector<std::string>& identities) {
  if (configured != kAutomatic) return {.type = configured, .text = configured};
  const Hosts hosts(identities);
  if (hosts.count() == 1) return {.type = kWithin, .text = kWithin};
  if (hosts.count() == hosts.world()) {
    return {.type = kBetween, .text = fmt::format("{}, each on its own host", kBetween)};
  }
  return {
      .type = kWithin,
      .between = kBetween,
      .text = fmt::format("{} within {} hosts and {} between", kWithin, hosts.count(), kBetween)};
}

}  // namespace tessera

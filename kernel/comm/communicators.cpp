#include "kernel/comm/communicators.hpp"

#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "kernel/comm/hosts.hpp"
#include "tessera/device/communicator.hpp"
#include "tessera/error.hpp"
#include "tessera/plugin.hpp"

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

AutoCommunicators auto_communicators(std::span<const ComponentInfo* const> communicators,
                                     std::string_view memory_kind) {
  AutoCommunicators found;
  for (const ComponentInfo* const info : communicators) {
    if (info->reach == CommunicatorReach::unstated || info->memory_kind != memory_kind) continue;
    const bool one_host = info->reach == CommunicatorReach::one_host;
    std::string& place = one_host ? found.within : found.between;
    if (!place.empty()) {
      fail_config(
          "comm.type = \"auto\" may be \"{}\" or \"{}\": both join ranks of {}, with tensors in "
          "memory of kind \"{}\"; set comm.type to one of them",
          place,
          info->type,
          one_host ? "one host" : "several hosts",
          memory_kind);
    }
    place = info->type;
  }
  return found;
}

CommunicatorChoice choose_communicators(const std::string& configured,
                                        const std::vector<std::string>& identities,
                                        const AutoCommunicators& automatic) {
  if (configured != kAutoCommunicator) return {.type = configured, .text = configured};
  const Hosts hosts(identities);
  const std::string &within = automatic.within, &between = automatic.between;
  if (hosts.count() == 1 && !within.empty()) return {.type = within, .text = within};
  if (between.empty()) {
    fail_config(
        "comm.type = \"auto\" finds no communicator that joins {} host{}{}: load the plugin of "
        "one (TESSERA_PLUGIN_PATH), or set comm.type",
        hosts.count(),
        hosts.count() == 1 ? "" : "s",
        within.empty() ? "" : fmt::format("; \"{}\" joins ranks of one", within));
  }
  if (hosts.count() == hosts.world() && hosts.world() > 1) {
    return {.type = between, .text = fmt::format("{}, each on its own host", between)};
  }
  if (within.empty()) return {.type = between, .text = between};
  return {.type = within,
          .between = between,
          .text = fmt::format("{} within {} hosts and {} between", within, hosts.count(), between)};
}

}  // namespace tessera

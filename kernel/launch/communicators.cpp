#include "kernel/launch/communicators.hpp"

#include "kernel/comm/hosts.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

constexpr const char* kWithin = "shm";
constexpr const char* kBetween = "gloo";

}  // namespace

CommunicatorChoice choose_communicators(const std::string& configured,
                                        const std::vector<std::string>& identities) {
  if (configured != "auto") return {.type = configured, .text = configured};
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

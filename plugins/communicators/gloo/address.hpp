#pragma once
#include <string>

#include <tessera/device/communicator.hpp>

namespace tessera::gloo_tcp {

/// Where this rank listens: an address or host name, or a network interface; one is empty.
struct BindAddress {
  std::string host, interface;
  std::string text() const;
};

/// What configuration says; else the network over which the ranks reach their store, and loopback
/// when that is on this host. Asks all ranks through keys below `prefix`.
BindAddress choose_address(const CommunicatorArguments& arguments,
                           const std::string& prefix,
                           const BindAddress& configured);

}  // namespace tessera::gloo_tcp

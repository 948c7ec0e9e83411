#include "address.hpp"

#include <vector>

#include <tessera/device/store_route.hpp>
#include <tessera/error.hpp>
#include <tessera/io/written.hpp>

namespace tessera::gloo_tcp {

namespace {

constexpr const char* kLoopback = "127.0.0.1";

bool is_loopback(const std::string& address) {
  return address.empty() || address.starts_with("127.") || address == "::1";
}

}  // namespace

std::string BindAddress::text() const {
  return interface.empty() ? written_plain(host) : "interface " + written_plain(interface);
}

BindAddress choose_address(const CommunicatorArguments& arguments,
                           const std::string& prefix,
                           const BindAddress& configured) {
  Store& store = *arguments.store;
  const auto* routed = dynamic_cast<const RoutedStore*>(&store);
  const StoreRoute own = routed == nullptr ? StoreRoute{} : routed->route();
  const auto key = [&](i64 rank) { return fmt::format("{}/route/{}", prefix, rank); };
  store.set(key(arguments.rank), own.own + " " + own.server);
  if (!configured.host.empty() || !configured.interface.empty()) return configured;
  if (!is_loopback(own.own)) return {own.own, {}};

  // A rank on the store's host may reach it over loopback while others come from outside; the
  // address that they use belongs to this host.
  for (i64 rank = 0; rank < arguments.world; ++rank) {
    const std::string route = store.get(key(rank), arguments.init_timeout);
    const std::size_t space = route.find(' ');
    if (!is_loopback(route.substr(0, space))) return {route.substr(space + 1), {}};
  }
  return {own.own.empty() ? kLoopback : own.own, {}};
}

}  // namespace tessera::gloo_tcp

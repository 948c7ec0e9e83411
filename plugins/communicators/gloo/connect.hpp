#pragma once
#include <chrono>
#include <memory>
#include <string>

#include <gloo/transport/unbound_buffer.h>
#include <tessera/device/communicator.hpp>

#include "address.hpp"

namespace gloo::transport {
class Context;
class Device;
}  // namespace gloo::transport

namespace tessera::gloo_tcp {

using Buffer = ::gloo::transport::UnboundBuffer;

/// Longer than any run: Gloo's own deadlines close every connection of the rank.
inline constexpr std::chrono::milliseconds kForever = std::chrono::hours(24 * 365);

/// A connection of Gloo to each other rank.
struct Mesh {
  std::shared_ptr<::gloo::transport::Device> device;  ///< its thread moves the bytes
  std::shared_ptr<::gloo::transport::Context> context;
  void close() noexcept;
};

/// Connects all ranks, which find each other through keys below `prefix`, and checks that the
/// other end of each connection can read the store. Throws Error with rank, address and reason.
Mesh connect_all(const CommunicatorArguments& arguments,
                 const std::string& prefix,
                 const BindAddress& address);

/// Slots that no group uses: for the first message, and for Transport's sentinels.
inline constexpr u64 kHelloSlot = ~u64{0};
inline constexpr u64 kSentinelSlot = ~u64{0} - 1;

}  // namespace tessera::gloo_tcp

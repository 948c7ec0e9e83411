#pragma once
#include <string_view>

#include "tessera/device/communicator.hpp"

namespace tessera {

/// A device and a communicator of a run, by name, and the kinds of memory of their tensors.
struct MemoryKinds {
  std::string_view device, of_device;
  std::string_view communicator, carried;  ///< `carried` empty: any kind
};

/// Throws ConfigError, naming both, unless tensors of the device can be carried: in their own
/// memory or, where `staged` (comm.staged), through memory of the host. Staging what needs none is
/// an error too.
void check_memory_kinds(const MemoryKinds& kinds, bool staged);
void check_memory_kinds(const Device& device, const Communicator& communicator, bool staged);

}  // namespace tessera

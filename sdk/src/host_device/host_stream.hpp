#pragma once
#include <string>

#include "tessera/device/device.hpp"

namespace tessera {

/// A stream of a host device.
class HostStream final : public Stream {
 public:
  /// Enqueues a fill with NaN; empty but in the test mode `deferred`.
  using Poison = std::function<void(Stream& stream, void* address, i64 bytes)>;

  HostStream(Device& device, int index, std::string name, Poison poison);
  void poison(void* address, i64 bytes);

 private:
  Poison poison_;
};

/// Called by arenas on memory that they give out or take back: in the test mode `deferred` it is
/// overwritten with NaN in the order of `stream`, which a capture records; elsewhere nothing
/// happens. `bytes` is a multiple of 8.
void poison(Stream& stream, void* address, i64 bytes);

}  // namespace tessera

#pragma once
#include <memory>

#include "tessera/device/host_block.hpp"

namespace tessera {

class Device;

/// What owns the memory of a HostBlock of a host device.
class HostMemory {
 public:
  /// `in_use` counts the bytes of all blocks of the device.
  HostMemory(const Device& device, i64 bytes, std::shared_ptr<i64> in_use);
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  const Device& device() const { return device_; }
  std::byte* address() const { return address_; }
  /// In the test mode `deferred`, each queued copy from the block keeps one of these.
  std::shared_ptr<void> read_later() const { return reads_; }
  bool read_by_queue() const { return reads_.use_count() > 1; }

 private:
  const Device& device_;
  i64 bytes_;
  std::shared_ptr<i64> in_use_;
  std::byte* address_;
  std::shared_ptr<void> reads_ = std::make_shared<char>();
};

}  // namespace tessera

#pragma once
#include <deque>
#include <map>
#include <vector>

#include "tessera/device/device.hpp"

namespace tessera {

/// Reuses host blocks of a device, since making one is a request to the system: equal steps make
/// none after the first. Used on the rank's thread.
class BlockCache {
 public:
  explicit BlockCache(Device& device) : device_(device) {}
  /// Returns at least `bytes` bytes: a block that was given back, after its last copy, or a new
  /// one. So the number of blocks does not depend on how fast the device is.
  HostBlock take(i64 bytes);
  /// No work that is enqueued after `last_copy` uses the block.
  void give_back(HostBlock block, Event last_copy);
  /// Keeps a block that peers may still use, because its collective did not complete, until the
  /// cache goes.
  void keep(HostBlock block) { kept_.push_back(std::move(block)); }

  /// Size of a block for so many bytes: a power of two, so that varying sizes share few classes.
  static i64 block_bytes(i64 bytes);

 private:
  struct Idle {
    HostBlock block;
    Event last_copy;
  };
  Device& device_;
  std::map<i64, std::deque<Idle>> idle_;  // by size; the one that was given back first is first
  std::vector<HostBlock> kept_;
};

}  // namespace tessera

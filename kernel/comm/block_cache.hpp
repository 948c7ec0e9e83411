#pragma once
#include <deque>
#include <map>
#include <vector>

#include "tessera/device/device.hpp"

namespace tessera {

/// Host blocks of a device that are used again and again, since making one is a request to the
/// system: steps that are alike make none after the first. Used on the rank's thread.
class BlockCache {
 public:
  explicit BlockCache(Device& device) : device_(device) {}
  /// At least `bytes` bytes. Takes a block that was given back where there is one, and waits for
  /// the last copy of it, so the number of blocks does not depend on how fast the device is.
  HostBlock take(i64 bytes);
  /// `last_copy`: no work that was enqueued later uses the block.
  void give_back(HostBlock block, Event last_copy);
  /// Keeps a block that peers may still use, because its collective did not complete, until the
  /// cache goes.
  void keep(HostBlock block) { kept_.push_back(std::move(block)); }

  /// What a block for so many bytes takes: a power of two, so that sizes that differ from step to
  /// step share few classes.
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

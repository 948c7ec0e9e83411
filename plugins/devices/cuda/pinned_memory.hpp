#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda_event.hpp"
#include "tessera/device/host_block.hpp"

namespace tessera::cuda {

/// What owns the memory of a HostBlock, and knows how far the copies that use it are.
class PinnedMemory {
 public:
  PinnedMemory(const Device& device, i64 bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  const Device& device() const { return device_; }
  void* address() const { return address_; }
  i64 bytes() const { return bytes_; }
  /// A copy was enqueued on a stream; `after` is recorded behind it.
  void used_until(int stream, std::shared_ptr<CudaEvent> after) {
    last_[stream] = std::move(after);
  }
  bool in_use() const;

 private:
  const Device& device_;
  i64 bytes_;
  void* address_ = nullptr;
  std::map<int, std::shared_ptr<CudaEvent>> last_;  // by stream
};

/// Page-locked memory of a device. A block that its owner drops while copies are queued is freed
/// after them.
class PinnedBlocks {
 public:
  explicit PinnedBlocks(const Device& device) : device_(device) {}
  HostBlock make(i64 bytes);
  /// Frees the blocks that were dropped and that no copy uses any more. Not under capture.
  void collect();
  i64 bytes() const { return bytes_; }  ///< of all that are not freed
  i64 made() const { return made_; }

 private:
  struct Dropped {
    std::mutex mutex;  // any thread may drop a block
    std::vector<std::unique_ptr<PinnedMemory>> blocks;
  };
  const Device& device_;
  std::shared_ptr<Dropped> dropped_ = std::make_shared<Dropped>();
  i64 bytes_ = 0, made_ = 0;
};

}  // namespace tessera::cuda

#pragma once
#include <memory>

#include "tessera/device/device.hpp"
#include "world.hpp"

namespace tessera::nccl {

/// Collectives of one group, enqueued on the stream of its lane.
class NcclGroup final : public GroupBackend {
 public:
  NcclGroup(std::shared_ptr<World> world, const GroupSpec& spec, Device& device);
  bool capturable() const override { return true; }

 private:
  std::shared_ptr<PendingCollective> do_start(Collective collective, Stream& after) override;
  void enqueue(const Collective& collective, cudaStream_t stream, bool first);
  void add(const Collective& collective, Comm* comm, cudaStream_t stream);
  void move(const Collective& collective, Comm* comm, cudaStream_t stream);
  void call(int result, const char* function) { world_->check(result, function, links_.get()); }

  std::shared_ptr<World> world_;
  std::shared_ptr<const GroupSpec> spec_;
  std::shared_ptr<Links> links_;
  Device& device_;
  Stream& lane_;
  Tensor mark_;  // what a barrier sums
  u64 collectives_ = 0;
};

}  // namespace tessera::nccl

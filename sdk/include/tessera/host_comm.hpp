#pragma once
#include <memory>

#include "tessera/comm.hpp"

namespace tessera {

/// Base for communicators that move bytes with the CPU (threads, shm, gloo): turns post and finish
/// into stream tasks, so that they run in stream order, can be recorded in software graphs and run
/// under the `deferred` test mode. Posting never blocks; finishing may.
class TESSERA_API HostGroup : public GroupBackend {
 public:
  explicit HostGroup(Device& device) : device_(device) {}
  ~HostGroup() override;
  std::shared_ptr<PendingCollective> start(Collective collective, Stream& after) override;
  bool capturable() const override { return true; }

  using Ticket = u64;
  /// Announces the collective to the peers; its input holds its values now. Must not block.
  virtual Ticket post(const Collective& collective) = 0;
  /// Completes this ticket and all posted before it; throws Error on timeout or failure.
  virtual void finish(Ticket ticket) = 0;

 protected:
  Device& device() const { return device_; }

 private:
  Device& device_;
};

}  // namespace tessera

#pragma once
#include <chrono>
#include <memory>

#include "tessera/device/communicator.hpp"

namespace tessera {

/// Base for communicators that move bytes with the CPU (threads, shm, gloo): turns post and finish
/// into stream tasks, so that they run in stream order, can be recorded in software graphs and run
/// under the `deferred` test mode. Posting never blocks; finishing may.
class TESSERA_API HostGroup : public GroupBackend {
 public:
  HostGroup(Device& device, CommLane lane) : device_(device), lane_(lane) {}
  ~HostGroup() override;
  bool capturable() const override { return true; }
  HostGroup* host_group() override { return this; }

  using Ticket = u64;
  /// Announces the collective to the peers; its input holds its values now. Must not block.
  Ticket post(const Collective& collective);
  /// Returns when this collective is complete; what else was posted may stay open, but moves on
  /// meanwhile. Returns at once for one that is complete. Throws Error on timeout or failure.
  void finish(Ticket ticket);
  /// For an exchange: returns when everything that this rank receives has arrived, even if peers
  /// have not yet taken what it sends.
  void finish_received(Ticket ticket);

 protected:
  Device& device() const { return device_; }

 private:
  std::shared_ptr<PendingCollective> do_start(Collective collective, Stream& after) final;
  virtual Ticket do_post(const Collective& collective) = 0;
  virtual void do_finish(Ticket ticket) = 0;
  virtual void do_finish_received(Ticket ticket) = 0;
  Device& device_;
  CommLane lane_;
};

}  // namespace tessera

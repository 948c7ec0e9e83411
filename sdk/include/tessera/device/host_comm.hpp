#pragma once
#include <chrono>
#include <memory>
#include <string_view>

#include "tessera/device/communicator.hpp"
#include "tessera/error.hpp"

namespace tessera {

/// What a wait is for: all of a collective, or only what an exchange receives, even if peers have
/// not yet taken what is sent.
enum class Until : u8 { complete, received };

/// Base for communicators that move bytes with the CPU (threads, shm, gloo): turns post and finish
/// into stream tasks, so that they run in stream order, can be recorded in software graphs and run
/// under the `deferred` test mode. Posting never blocks; finishing may.
class TESSERA_API HostGroup : public GroupBackend {
 public:
  /// `rank`: this rank's number in the run (CommunicatorArguments::number).
  HostGroup(Device& device, const GroupSpec& spec, i64 rank);
  ~HostGroup() override;
  bool capturable() const override { return true; }
  HostGroup* host_group() override { return this; }

  /// A collective that was posted. Rises with each post of a rank, whatever its group; never 0.
  using Ticket = u64;
  /// Announces the collective to the peers; its input holds its values now. Must not block.
  Ticket post(const Collective& collective);
  /// Returns when this collective has come as far; what else was posted may stay open, but moves on
  /// meanwhile. Throws Error on timeout or failure, and for ticket 0.
  void finish(Ticket ticket, Until until = Until::complete);

  /// What a backend is handed.
  struct Posted {
    const Collective& collective;
    Ticket ticket;
    CollectivePlace place;  ///< for errors that peers are told; others get it from ProcessGroup
  };

 protected:
  const GroupSpec& spec() const { return *spec_; }

 private:
  std::shared_ptr<PendingCollective> do_start(Collective collective, Stream& after) final;
  virtual void do_post(const Posted& posted) = 0;
  /// For a ticket that it does not know it returns, or throws the failure that ended communication.
  virtual void do_finish(Ticket ticket, Until until) = 0;

  Device& device_;
  std::shared_ptr<const GroupSpec> spec_;
  i64 rank_;
  u64 collectives_ = 0;  // posted, in which all members take part
};

/// The error of a wait in vain: "timed out after 2.0 s: rank 3 has not come".
TESSERA_API Error timed_out(std::chrono::duration<double> after, std::string_view waiting_for);

}  // namespace tessera

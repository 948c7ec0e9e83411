#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernel/comm/control_plane/control_plane.hpp"
#include "kernel/comm/rank.hpp"
#include "kernel/model/build_context.hpp"
#include "kernel/train/setup/connections.hpp"
#include "tessera/device/communicator.hpp"

namespace tessera {

struct RunSetup;

/// Which rank of a run this process or thread is, and how it meets the others.
struct RankIdentity {
  i64 rank = 0, world = 1;
  i64 local_rank = 0, local_world = 1;  ///< among the ranks of its host
  Store* store = nullptr;               ///< outlives the rank; unused in a world of one
  std::string communicator = {};        ///< type; unused in a world of one
  /// Where set, `communicator` joins only ranks of one host, and this type joins the hosts; then
  /// `hosts` says where each rank is.
  std::string between_hosts = {};
  std::vector<std::string> hosts = {};
  int threads = 1;  ///< CPU threads
  /// Where it says what it does; nullptr: in a record that nobody else sees.
  std::shared_ptr<Progress> progress = nullptr;

  ControlPlane control_plane(const WaitLimits& limits) const {
    return {store, rank, world, limits};
  }
  u64 deferred_seed = 0;  ///< test mode of the device; 0: off
};

/// What ranks are made from; every rank has the same.
struct RankSpec {
  Layout layout;
  Component<Device> device;
  std::chrono::milliseconds timeout{60000};        ///< of a collective
  std::chrono::milliseconds init_timeout{300000};  ///< of slow phases
  ComponentMaker* maker = nullptr;
  bool captures = true;  ///< DeviceArguments::captures
  int share = 1;         ///< DeviceArguments::share
  bool staged = false;   ///< comm.staged; unused in a world of one
};
RankSpec rank_spec_of(const RunSetup& setup);

std::shared_ptr<Device> make_device(const RankSpec& spec,
                                    const RankIdentity& identity,
                                    std::shared_ptr<MemorySource> memory = nullptr);
/// What stands for a rank's device where nothing is computed (DeviceArguments::planned).
std::shared_ptr<Device> make_planned_device(const RankSpec& spec, int threads = 1);
/// What a device with memory of its own does before the ranks' groups exist. Returns what these
/// will do.
using WarmUp = std::function<Connections(i64 rank, const std::shared_ptr<Device>& device)>;
/// Meets the other ranks: all of them call it.
Rank make_rank(const RankSpec& spec, const RankIdentity& identity, const WarmUp& warm_up = {});

}  // namespace tessera

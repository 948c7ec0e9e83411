#include "kernel/train/setup/make_rank.hpp"

#include <utility>

#include "kernel/comm/per_host.hpp"
#include "kernel/comm/staged.hpp"
#include "kernel/train/setup/own_units.hpp"
#include "kernel/train/setup/run_setup.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

std::chrono::milliseconds ms(double seconds) {
  return std::chrono::milliseconds(static_cast<i64>(seconds * 1000));
}

std::shared_ptr<Communicator> make_communicator(const RankSpec& spec,
                                                const RankIdentity& identity) {
  if (identity.world == 1) return nullptr;
  require(identity.store != nullptr, "a world of {} ranks needs a store", identity.world);
  CommunicatorArguments arguments{
      identity.rank, identity.world, identity.store, spec.timeout, spec.init_timeout};
  arguments.share = spec.share;
  const auto make_as = [&spec](const std::string& type) {
    return [&spec, type](CommunicatorArguments& of_type) {
      return spec.maker->make(Component<Communicator>{type, "comm"}, of_type);
    };
  };
  if (identity.between_hosts.empty()) return make_as(identity.communicator)(arguments);
  return std::make_shared<PerHostCommunicator>(Hosts(identity.hosts),
                                               arguments,
                                               make_as(identity.communicator),
                                               make_as(identity.between_hosts));
}

// Other instruction sets and libraries round otherwise, and replicas have to be equal bit for bit.
void agree_on_hardware(const RankSpec& spec, const RankIdentity& identity, const Device& device) {
  if (identity.world == 1) return;
  identity.control_plane(spec.init_timeout)
      .same({{"what their device computes with", device.hardware()}},
            "results would differ in their last bits: start on hosts and units that are alike, or "
            "let "
            "all devices use only what each of them has (the page of the device says how)");
}

// Two ranks on one GPU by mistake are slow, or fail far from here. Returns Rank::units_per_rank.
double agree_on_units(const RankSpec& spec, const RankIdentity& identity, const Device& device) {
  const DeviceUnit unit = device.unit();
  if (identity.world == 1 || unit.id.empty()) return 1;
  const ControlPlane plane = identity.control_plane(spec.init_timeout);
  const auto ids = plane.collect("unit", unit.id);
  const auto texts = plane.collect("text of its unit", unit.text);
  plane.decide("units", [&] { require_own_units(ids, texts, spec.share); });
  return identity.rank == 0 ? units_per_rank(ids) : 1;
}

DeviceArguments device_arguments(const RankSpec& spec, int threads) {
  DeviceArguments arguments;
  arguments.threads = threads;
  arguments.captures = spec.captures;
  arguments.kernels = [&spec](std::string_view name, std::string_view memory_kind) {
    return spec.maker->kernels(name, memory_kind);
  };
  return arguments;
}

}  // namespace

RankSpec rank_spec_of(const RunSetup& setup) {
  const CommSection& comm = setup.config->comm;
  return {setup.layout,
          setup.config->device.device,
          ms(comm.timeout_s),
          ms(comm.init_timeout_s),
          setup.maker.get(),
          setup.config->graph.type != "none",
          static_cast<int>(setup.config->device.share),
          comm.staged};
}

std::shared_ptr<Device> make_device(const RankSpec& spec,
                                    const RankIdentity& identity,
                                    std::shared_ptr<MemorySource> memory) {
  DeviceArguments arguments = device_arguments(spec, identity.threads);
  arguments.local_rank = static_cast<int>(identity.local_rank);
  arguments.local_world = static_cast<int>(identity.local_world);
  arguments.share = spec.share;
  arguments.deferred_seed = identity.deferred_seed;
  arguments.memory = std::move(memory);
  return spec.maker->make(spec.device, arguments);
}

std::shared_ptr<Device> make_planned_device(const RankSpec& spec, int threads) {
  DeviceArguments arguments = device_arguments(spec, threads);
  arguments.planned = true;
  return spec.maker->make(spec.device, arguments);
}

Rank make_rank(const RankSpec& spec, const RankIdentity& identity, const WarmUp& warm_up) {
  std::shared_ptr<Communicator> communicator = make_communicator(spec, identity);
  const bool staged = spec.staged && communicator != nullptr;
  auto memory = communicator != nullptr && !staged ? communicator->memory() : nullptr;
  auto device = make_device(spec, identity, std::move(memory));
  if (staged) {
    communicator = std::make_shared<StagedCommunicator>(std::move(communicator), *device);
  }
  if (communicator != nullptr) {
    // The device may outlive the rank.
    device->set_wait_check([checked = std::weak_ptr(communicator)] {
      if (const auto alive = checked.lock()) alive->check();
    });
  }
  agree_on_hardware(spec, identity, *device);
  const double units = agree_on_units(spec, identity, *device);
  Connections connections;
  const bool of_host = device->memory_kind() == kHostMemory;
  if (warm_up && !of_host) connections = warm_up(identity.rank, device);
  auto progress = identity.progress != nullptr ? identity.progress : std::make_shared<Progress>();
  Rank rank = join_rank(
      spec.layout, identity.rank, std::move(communicator), std::move(device), std::move(progress));
  rank.units_per_rank = units;
  if (staged || of_host) return rank;
  try {
    connections.make(*rank.mesh, *rank.device);
  } catch (const std::exception& error) {
    rank.abort(error.what());  // the device's destructor waits for collectives under way
    throw;
  }
  return rank;
}

}  // namespace tessera

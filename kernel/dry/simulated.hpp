#pragma once
#include <functional>
#include <memory>

#include "tessera/device/communicator.hpp"

namespace tessera {

/// Groups of any world without peers, for planning: a collective is reported and done. The counters
/// of ProcessGroup count as in a real run; values do not change.
class SimulatedCommunicator final : public Communicator {
 public:
  /// Told of every collective, in order. `id` counts them from 0 over all groups of this rank.
  struct Events {
    std::function<void(u64 id, const GroupSpec& group, const Collective& collective)> started;
    std::function<void(u64 id)> waited;
    /// GroupBackend::counts_only of the groups: only bytes matter.
    bool counts_only = false;
    /// GroupBackend::capturable of the groups.
    bool capturable = true;
  };

  SimulatedCommunicator() : SimulatedCommunicator(Events()) {}
  explicit SimulatedCommunicator(Events events);

  std::string_view do_name() const override { return "simulated"; }
  std::string_view do_memory_kind() const override { return {}; }  // it touches none
  std::unique_ptr<GroupBackend> do_create_group(const GroupSpec& spec, Device& device) override;
  void do_abort(std::string_view) noexcept override {}

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tessera

#pragma once
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "tessera/device/host_comm.hpp"
#include "tessera/device/scratch_pool.hpp"

namespace tessera {

/// A group whose members are on several hosts, over two communicators: `within` joins the ranks of
/// this host, `between` all ranks. Where some members share a host, transfers and gathers go to
/// neighbours by the first and to others by the second, in one collective. So do sums that a layer
/// waits for. All other collectives are the second one's. While a rank waits for another host,
/// `within` moves on (README.md).
class SpanningGroup : public HostGroup {
 public:
  struct Parts {
    std::shared_ptr<Communicator> within;  ///< nullptr: this rank is alone on its host
    std::shared_ptr<Communicator> between;
    /// Does any host have several members? The same on all members: they must send the same way.
    bool shared_hosts = false;
    /// The members on this host; nullptr where this rank is the only one. Everything goes by
    /// `between` where a device's library carries their collectives out.
    std::unique_ptr<GroupBackend> near;
    std::vector<int> near_index;  ///< by member: its index in `near`, -1 where it is not in it
    std::unique_ptr<GroupBackend> all;  ///< of `between`
  };
  /// `parts.all` has a host group.
  SpanningGroup(Device& device, const GroupSpec& spec, Parts parts);
  ~SpanningGroup() override;

  void do_post(const Posted& posted) override;
  void do_finish(Ticket ticket, Until until) override;

 private:
  // A collective under way; tickets are 0 where a part has nothing to do.
  struct UnderWay {
    Ticket near = 0, all = 0;
    std::optional<Collective> sum = {};  // a reduce_scatter whose terms are on their way
    ScratchPool::Block terms = {};       // those of the other members, in group order
  };

  Collective as_transfers(const Collective& collective, UnderWay& made);
  void post_transfers(const Collective& collective, UnderWay& made);
  void add_up(const UnderWay& done);
  template <class Wait>
  void while_within_moves(Wait&& wait);

  ScratchPool scratch_;
  std::map<Ticket, UnderWay> under_way_;
  const Parts parts_;      // after the memory that their collectives use
  HostGroup* const near_;  // nullptr: this rank has no neighbour here
  HostGroup& all_;
};

}  // namespace tessera

#pragma once
#include <memory>
#include <string>
#include <vector>

#include "sdk/src/direct_comm/direct_state.hpp"

namespace tessera {

/// What the tasks of one group share: the members' control blocks and this member's position in
/// each sequence.
struct DirectMembers {
  DirectMembers(DirectState& state, const GroupSpec& spec);
  MemberControl& own() const { return *control[static_cast<std::size_t>(spec.index)]; }
  Channel& to(int peer) const { return own().channel(peer); }
  Channel& from(int peer) const {
    return control[static_cast<std::size_t>(peer)]->channel(spec.index);
  }
  /// Wakes members that sleep: called after a counter that all may wait for.
  void ring() {
    for (const i64 member : spec.members) state.ring(member);
  }
  /// A member's number in the run, for errors.
  i64 number_of(int member) const { return state.arguments.number(spec.rank_of(member)); }

  DirectState& state;
  GroupSpec spec;
  std::vector<MemberControl*> control;
  u64 worked = 0;                       ///< collectives carried out here
  std::vector<u64> next_to, next_from;  ///< sends and receives posted here, by peer
  int open = 0;                         ///< tasks that are not complete
  std::vector<const void*> sources;     ///< of the reduction that runs now
  std::vector<void*> targets;
};

/// An input as peers reach it: in place, or copied to memory that they can read.
class SharedInput {
 public:
  SharedInput() = default;
  SharedInput(const SharedInput&) = delete;
  SharedInput& operator=(const SharedInput&) = delete;
  /// Returns the token; copies when it must.
  u64 share(DirectState& state, const TensorArg& tensor);
  /// Peers are done: brings results back when they wrote to the copy, and frees it.
  void finish(DirectState& state, const TensorArg& tensor, bool written);

 private:
  void* copy_ = nullptr;
  i64 reserved_ = 0;
};

/// Collectives of one group through DirectState.
class DirectGroup : public HostGroup {
 public:
  DirectGroup(std::shared_ptr<DirectState> state, const GroupSpec& spec, Device& device);
  ~DirectGroup() override;
  void do_post(const Posted& posted) override;
  void do_finish(Ticket ticket, Until until) override { state_->finish(ticket, until); }

 private:
  std::shared_ptr<DirectState> state_;
  std::shared_ptr<DirectMembers> members_;
};

std::unique_ptr<DirectTask> make_collective_task(std::shared_ptr<DirectMembers> members,
                                                 const HostGroup::Posted& posted);
std::unique_ptr<DirectTask> make_exchange_task(std::shared_ptr<DirectMembers> members,
                                               const HostGroup::Posted& posted);

}  // namespace tessera

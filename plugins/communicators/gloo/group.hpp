#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <tessera/host_comm.hpp>

#include "call.hpp"
#include "lane.hpp"

namespace tessera::gloo_tcp {

/// What the tasks of one group share.
class Members {
 public:
  /// `times`: how many groups with this id were made before.
  Members(std::shared_ptr<Transport> transport, const GroupSpec& spec, int times);

  /// For what a message is.
  enum class Use : u8 { part, result, exchange };
  /// A slot for one message, which begins `begin` bytes into the tensor. Everything that both ends
  /// must agree on goes into it, so that nothing ever arrives where something else is expected.
  u64 slot(Use use, u64 number, i64 begin, i64 bytes, u64 call) const;
  /// Where in the store this group's members say what they call.
  std::string key(std::string_view what, int member) const {
    return fmt::format("/call/{}/{}/{}", place_, what, member);
  }

  int size() const { return static_cast<int>(spec.members.size()); }
  int index() const { return spec.index; }
  i64 rank_of(int member) const { return spec.members[static_cast<std::size_t>(member)]; }
  /// The k-th of the others, starting behind this one, so that not all begin with the same.
  int other(int k) const { return (spec.index + 1 + k) % size(); }
  int others() const { return size() - 1; }

  const std::shared_ptr<Transport> transport;
  const GroupSpec spec;

 private:
  std::string place_;  // the same on all members, used for no other group
  u64 hash_;
};

/// Collectives of one group over Gloo's connections. What this member sends goes out when it is
/// posted; lanes do the rest: one for what all members take part in, and one for the exchanges
/// with each peer, because those concern only the two.
class GlooGroup : public HostGroup {
 public:
  GlooGroup(std::shared_ptr<const Members> members, Device& device);
  ~GlooGroup() override;
  Ticket post(const Collective& collective) override;
  void finish(Ticket ticket) override;

 private:
  Lane& lane(int peer);  // own index: of the collectives
  void post_exchange(const Collective& collective);

  std::shared_ptr<const Members> members_;
  std::map<int, std::unique_ptr<Lane>> lanes_;
  u64 tickets_ = 0;
  u64 collectives_ = 0;                   // posted
  std::vector<u64> next_to_, next_from_;  // messages of exchanges, by peer
};

std::unique_ptr<Task> make_collective_task(std::shared_ptr<const Members> members,
                                           const Collective& collective,
                                           u64 number);

/// The part of an exchange that concerns one peer; the numbers count its messages.
struct PeerExchange {
  int peer;
  std::vector<TensorArg> sends, receives;
  u64 first_send, first_receive;
};
std::unique_ptr<Task> make_exchange_task(std::shared_ptr<const Members> members,
                                         const Collective& collective,
                                         const PeerExchange& part);

}  // namespace tessera::gloo_tcp

#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <tessera/device/host_comm.hpp>

#include "task_queue.hpp"

namespace tessera::gloo_tcp {

/// What the tasks of one group share.
class Members {
 public:
  /// `times`: how many groups with this id were made before.
  Members(std::shared_ptr<Transport> transport, const GroupSpec& spec, int times);

  /// What a message is for.
  enum class Use : u8 { part, result, exchange };
  /// A slot for one message, which begins `begin` bytes into the tensor. Everything that both ends
  /// must agree on goes into it, so that nothing ever arrives where something else is expected.
  u64 slot(Use use, u64 number, i64 begin, i64 bytes, u64 call) const;
  /// Where in the store this group's members say what they call.
  std::string key(std::string_view what, int member) const {
    return fmt::format("/call/{}/{}/{}", place_, what, member);
  }

  /// The k-th of the others, starting after this one, so that not all begin with the same.
  int other(int k) const { return (spec.index + 1 + k) % spec.size(); }
  int others() const { return spec.size() - 1; }

  const std::shared_ptr<Transport> transport;
  const GroupSpec spec;

 private:
  std::string place_;  // the same on all members, used for no other group
  u64 hash_;
};

class ExchangeTask;

/// Messages of a group's exchanges that were posted, by peer.
struct MessageCounts {
  explicit MessageCounts(const GroupSpec& spec) : to(spec.members.size()), from(to) {}
  std::vector<u64> to, from;
};

/// Collectives of one group over Gloo's connections. What this member sends goes out when it is
/// posted. A queue does the rest of what all members take part in; an exchange concerns only its
/// two ends, so its deliveries are waited for one by one.
class GlooGroup : public HostGroup {
 public:
  GlooGroup(std::shared_ptr<const Members> members, Device& device);
  ~GlooGroup() override;
  void do_post(const Posted& posted) override;
  void do_finish(Ticket ticket, Until until) override;

 private:
  void attempt(const CollectivePlace& place, const std::function<void()>& body);

  std::shared_ptr<const Members> members_;
  TaskQueue queue_;
  std::vector<std::unique_ptr<ExchangeTask>> exchanges_;  // under way, by ticket
  MessageCounts messages_;
};

/// Memory that a member takes for what the others send it to be reduced.
i64 scratch_bytes(const Collective& collective, int members);

std::unique_ptr<Task> make_collective_task(std::shared_ptr<const Members> members,
                                           const HostGroup::Posted& posted);

}  // namespace tessera::gloo_tcp

// Sends and receives between pairs of members: first in, first out for each directed pair, and
// nobody else takes part. A receiver copies from the sender's tensor; the sender stays until then.
#include <algorithm>

#include "sdk/src/direct_comm/direct_group.hpp"
#include "sdk/src/direct_comm/direct_reduce.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

class ExchangeTask : public DirectTask {
 public:
  ExchangeTask(std::shared_ptr<DirectMembers> members, const HostGroup::Posted& posted);
  ~ExchangeTask() override { --members_->open; }

  bool advance() override;
  bool received() const override { return std::ranges::all_of(receives_, &Receive::complete); }
  std::string waiting_for(Until until) const override;
  std::vector<i64> missing(Until until) const override;

 private:
  enum class Progress { waiting, announced, complete };
  struct Send {
    int peer;
    TensorArg tensor;
    u64 number;
    SharedInput shared;
    Progress progress = Progress::waiting;
  };
  struct Receive {
    int peer;
    TensorArg tensor;
    u64 number;
    bool complete = false;
  };

  void advance(Send& send);
  void advance(Receive& receive);

  std::shared_ptr<DirectMembers> members_;
  std::vector<std::unique_ptr<Send>> sends_;
  std::vector<Receive> receives_;
};

ExchangeTask::ExchangeTask(std::shared_ptr<DirectMembers> members, const HostGroup::Posted& posted)
    : DirectTask(posted), members_(std::move(members)) {
  for (const Transfer& transfer : posted.collective.sends) {
    auto send = std::make_unique<Send>();
    send->peer = transfer.peer;
    send->tensor = transfer.tensor;
    send->number = members_->next_to[static_cast<std::size_t>(transfer.peer)]++;
    sends_.push_back(std::move(send));
  }
  for (const Transfer& transfer : posted.collective.receives) {
    const u64 number = members_->next_from[static_cast<std::size_t>(transfer.peer)]++;
    receives_.push_back({transfer.peer, transfer.tensor, number});
  }
  ++members_->open;
}

std::vector<i64> ExchangeTask::missing(Until until) const {
  std::vector<i64> ranks;
  const auto add = [&](int peer) {
    if (peer != members_->spec.index) ranks.push_back(members_->spec.rank_of(peer));
  };
  for (const auto& send : sends_) {
    if (until == Until::complete && send->progress != Progress::complete) add(send->peer);
  }
  for (const Receive& receive : receives_) {
    if (!receive.complete) add(receive.peer);
  }
  return ranks;
}

bool ExchangeTask::advance() {
  for (auto& send : sends_) {
    if (send->progress == Progress::waiting) advance(*send);
  }
  for (Receive& receive : receives_) {
    if (!receive.complete) advance(receive);
  }
  for (auto& send : sends_) {
    if (send->progress == Progress::announced) advance(*send);
  }
  const auto sent = [](const auto& send) { return send->progress == Progress::complete; };
  return std::ranges::all_of(sends_, sent) && received();
}

void ExchangeTask::advance(Send& send) {
  Channel& channel = members_->to(send.peer);
  // The receiver counts what it took in its own block.
  const std::atomic<u64>& taken = members_->from(send.peer).taken;
  const u64 took = taken.load(std::memory_order_acquire);
  if (send.progress == Progress::waiting) {
    const u64 sent = channel.sent.load(std::memory_order_relaxed);
    if (sent != send.number || send.number >= took + kChannelRing) return;
    channel.ring[send.number % kChannelRing] = {
        send.shared.share(members_->state, send.tensor),
        CollectiveCall::of(place.kind, send.tensor, place.name)};
    channel.sent.store(send.number + 1, std::memory_order_release);
    members_->state.ring(members_->spec.rank_of(send.peer));
    send.progress = Progress::announced;
  } else if (took > send.number) {
    send.shared.finish(members_->state, send.tensor, false);
    send.progress = Progress::complete;
  }
}

void ExchangeTask::advance(Receive& receive) {
  std::atomic<u64>& taken = members_->to(receive.peer).taken;
  Channel& channel = members_->from(receive.peer);
  if (taken.load(std::memory_order_relaxed) != receive.number ||
      channel.sent.load(std::memory_order_acquire) <= receive.number) {
    return;
  }
  const Announcement& sent = channel.ring[receive.number % kChannelRing];
  const i64 rank = members_->spec.rank_of(receive.peer), bytes = receive.tensor.bytes();
  if (!(sent.call == CollectiveCall::of(place.kind, receive.tensor))) {
    fail("rank {} sends {}, but rank {} expects {} bytes {} by {}",
         members_->number_of(receive.peer),
         sent.call.text(),
         members_->number_of(members_->spec.index),
         bytes,
         dtype_name(receive.tensor.dtype),
         collective_name(place.kind));
  }
  if (bytes > 0) {
    const PeerAccess access(members_->state, {&rank, 1});
    copy_bytes(receive.tensor.address, members_->state.memory->at(rank, sent.token, bytes), bytes);
  }
  taken.store(receive.number + 1, std::memory_order_release);
  members_->state.ring(rank);
  receive.complete = true;
}

std::string ExchangeTask::waiting_for(Until until) const {
  std::string text;
  const auto add = [&](int peer, std::string_view what) {
    text += fmt::format("{}rank {} {}", text.empty() ? "" : "; ", members_->number_of(peer), what);
  };
  for (const Receive& receive : receives_) {
    if (!receive.complete) add(receive.peer, "has not sent");
  }
  for (const auto& send : sends_) {
    if (until == Until::received || send->progress == Progress::complete) continue;
    add(send->peer, "has not received");
  }
  return text;
}

}  // namespace

std::unique_ptr<DirectTask> make_exchange_task(std::shared_ptr<DirectMembers> members,
                                               const HostGroup::Posted& posted) {
  return std::make_unique<ExchangeTask>(std::move(members), posted);
}

}  // namespace tessera

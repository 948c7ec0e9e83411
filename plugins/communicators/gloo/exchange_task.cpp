#include "exchange_task.hpp"

#include <algorithm>
#include <cstring>

#include <tessera/error.hpp>

namespace tessera::gloo_tcp {

namespace {

// Transfers within this rank, in the order of both lists.
void copy_to_itself(int own, const Collective& collective) {
  const auto is_own = [own](const Transfer& transfer) { return transfer.peer == own; };
  const auto sends = std::ranges::count_if(collective.sends, is_own);
  const auto receives = std::ranges::count_if(collective.receives, is_own);
  require(sends == receives, "{} sends to itself, {} receives", sends, receives);
  auto next = collective.receives.begin();
  for (const Transfer& send : collective.sends) {
    if (!is_own(send)) continue;
    next = std::find_if(next, collective.receives.end(), is_own);
    const TensorArg &from = send.tensor, &to = (next++)->tensor;
    require(from.bytes() == to.bytes() && from.dtype == to.dtype,
            "{} bytes {} sent to itself, {} bytes {} expected",
            from.bytes(),
            dtype_name(from.dtype),
            to.bytes(),
            dtype_name(to.dtype));
    if (from.bytes() == 0) continue;
    std::memmove(to.address, from.address, static_cast<std::size_t>(from.bytes()));
  }
}

}  // namespace

ExchangeTask::ExchangeTask(std::shared_ptr<const Members> members,
                           const HostGroup::Posted& posted,
                           MessageCounts& counts)
    : Task(posted), members_(std::move(members)) {
  const int own = members_->spec.index;
  copy_to_itself(own, posted.collective);
  const auto start_all =
      [&](const std::vector<Transfer>& transfers, std::vector<u64>& numbers, bool sends) {
        for (const Transfer& transfer : transfers) {
          if (transfer.peer == own) continue;
          start(transfer, numbers[static_cast<std::size_t>(transfer.peer)]++, sends);
        }
      };
  start_all(posted.collective.receives, counts.from, false);
  receives_ = parts_.size();
  start_all(posted.collective.sends, counts.to, true);
}

void ExchangeTask::start(const Transfer& transfer, u64 number, bool sends) {
  Transport& transport = *members_->transport;
  const TensorArg& tensor = transfer.tensor;
  const i64 rank = members_->spec.rank_of(transfer.peer), bytes = tensor.bytes();
  const CollectiveCall call = CollectiveCall::of(place.kind, tensor);
  const u64 slot = members_->slot(Members::Use::exchange, number, 0, bytes, call.hash());
  parts_.push_back({sends ? transport.send(rank, slot, tensor.address, bytes)
                          : transport.receive(rank, slot, tensor.address, bytes),
                    transfer.peer,
                    call,
                    number});
}

void ExchangeTask::run_until(std::size_t end, bool limited) {
  for (; done_ < end; ++done_) {
    members_->transport->wait(parts_[done_].delivery, *this, limited);
  }
}

std::string ExchangeTask::waiting_for() const {
  const Delivery& delivery = parts_[done_].delivery;
  return fmt::format("rank {} has not {}", delivery.rank(), delivery.sends() ? "received" : "sent");
}

Statement ExchangeTask::statement(const Delivery& delivery) const {
  const Part& part = parts_[done_];
  const int own = members_->spec.index;
  const int from = delivery.sends() ? own : part.peer;
  const auto key = [&](bool sends) {
    return members_->key(fmt::format("{} from {}", sends ? "sent" : "received", from),
                         from == own ? part.peer : own);
  };
  return {key(delivery.sends()),
          key(!delivery.sends()),
          part.number,
          fmt::format("{}, in {}", part.call.text(), members_->spec.name)};
}

}  // namespace tessera::gloo_tcp

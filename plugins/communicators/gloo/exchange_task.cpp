#include "exchange_task.hpp"

#include <tessera/base/hash.hpp>
#include <tessera/error.hpp>

namespace tessera::gloo_tcp {

ExchangeTask::ExchangeTask(std::shared_ptr<const Members> members,
                           const Collective& collective,
                           const PeerExchange& part)
    : members_(std::move(members)),
      kind_(collective.kind),
      name_(collective.name),
      peer_(part.peer) {
  u64 number = part.first_receive;
  for (const TensorArg& tensor : part.receives) start(tensor, number++, false);
  receives_ = parts_.size();
  number = part.first_send;
  for (const TensorArg& tensor : part.sends) start(tensor, number++, true);
}

void ExchangeTask::start(const TensorArg& tensor, u64 number, bool sends) {
  Transport& transport = *members_->transport;
  const i64 rank = members_->rank_of(peer_), bytes = tensor.bytes();
  const u64 slot =
      members_->slot(Members::Use::exchange, number, 0, bytes, message_hash(kind_, tensor));
  parts_.push_back({sends ? transport.send(rank, slot, tensor.address, bytes)
                          : transport.receive(rank, slot, tensor.address, bytes),
                    tensor,
                    number});
}

void ExchangeTask::run_until(std::size_t end, bool limited) {
  for (; done_ < end; ++done_) {
    members_->transport->wait(parts_[done_].delivery, *this, limited);
  }
}

std::string ExchangeTask::waiting_for() const {
  const bool sends = parts_[done_].delivery.sends();
  return fmt::format("rank {} has not {}", members_->rank_of(peer_), sends ? "received" : "sent");
}

Statement ExchangeTask::statement(const Delivery& delivery) const {
  const Part& part = parts_[done_];
  const int from = delivery.sends() ? members_->index() : peer_;
  const auto key = [&](bool sends) {
    return members_->key(fmt::format("{} from {}", sends ? "sent" : "received", from),
                         from == members_->index() ? peer_ : members_->index());
  };
  return {key(delivery.sends()),
          key(!delivery.sends()),
          part.number,
          message_text(kind_, part.tensor, members_->spec.name)};
}

}  // namespace tessera::gloo_tcp

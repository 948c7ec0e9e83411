// Sends and receives between this member and one peer: first in, first out in each direction, and
// nobody else takes part.
#include <tessera/error.hpp>

#include "group.hpp"

namespace tessera::gloo_tcp {

namespace {

class ExchangeTask : public Task {
 public:
  ExchangeTask(std::shared_ptr<const Members> members,
               const Collective& collective,
               const PeerExchange& part);
  void run(bool limited) override;
  bool passes_on() const override { return false; }
  std::string title() const override {
    return fmt::format("group {}: {} \"{}\"", members_->spec.name, collective_name(kind_), name_);
  }
  std::string waiting_for() const override;
  Statement statement(const Delivery& delivery) const override;

 private:
  struct Part {
    Delivery delivery;
    TensorArg tensor;
    u64 number;
  };
  void start(const TensorArg& tensor, u64 number, bool sends);

  std::shared_ptr<const Members> members_;
  const CollectiveKind kind_;
  const std::string name_;
  const int peer_;
  std::vector<Part> parts_;          // receives first
  std::atomic<std::size_t> now_{0};  // of parts_, waited for
};

ExchangeTask::ExchangeTask(std::shared_ptr<const Members> members,
                           const Collective& collective,
                           const PeerExchange& part)
    : members_(std::move(members)),
      kind_(collective.kind),
      name_(collective.name),
      peer_(part.peer) {
  u64 number = part.first_receive;
  for (const TensorArg& tensor : part.receives) start(tensor, number++, false);
  number = part.first_send;
  for (const TensorArg& tensor : part.sends) start(tensor, number++, true);
}

void ExchangeTask::start(const TensorArg& tensor, u64 number, bool sends) {
  Transport& transport = *members_->transport;
  const i64 rank = members_->rank_of(peer_), bytes = bytes_of(tensor);
  const u64 call = hash_of(message_text(kind_, tensor, members_->spec.name));
  const u64 slot = members_->slot(Members::Use::exchange, number, 0, bytes, call);
  parts_.push_back({sends ? transport.send(rank, slot, tensor.address, bytes)
                          : transport.receive(rank, slot, tensor.address, bytes),
                    tensor,
                    number});
}

void ExchangeTask::run(bool limited) {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    now_ = i;
    members_->transport->wait(parts_[i].delivery, *this, limited);
  }
}

std::string ExchangeTask::waiting_for() const {
  const bool sends = parts_[now_].delivery.sends();
  return fmt::format("rank {} has not {}", members_->rank_of(peer_), sends ? "received" : "sent");
}

Statement ExchangeTask::statement(const Delivery& delivery) const {
  const Part& part = parts_[now_];
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

}  // namespace

std::unique_ptr<Task> make_exchange_task(std::shared_ptr<const Members> members,
                                         const Collective& collective,
                                         const PeerExchange& part) {
  return std::make_unique<ExchangeTask>(std::move(members), collective, part);
}

}  // namespace tessera::gloo_tcp

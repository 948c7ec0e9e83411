// Sends and receives between this member and one peer: first in, first out in each direction, and
// nobody else takes part.
#include <atomic>
#include <cstring>

#include <tessera/error.hpp>

#include "group.hpp"

namespace tessera::gloo_tcp {

namespace {

using Use = Members::Use;

class ExchangeTask : public Task {
 public:
  ExchangeTask(std::shared_ptr<const Members> members,
               const Collective& collective,
               const PeerExchange& part);
  void run(Scratch& scratch) override;
  std::string title() const override {
    return fmt::format("group {}: {} \"{}\"", members_->spec.name, collective_name(kind_), name_);
  }
  std::string waiting_for() const override { return fmt::format("rank {} {}", rank_, why_.load()); }

 private:
  struct Receive {
    TensorArg tensor;
    u64 number;
    std::unique_ptr<Message> message;
    Delivery header;
  };
  void start_send(const Collective& collective, const TensorArg& tensor, u64 number);
  void start_receive(const TensorArg& tensor, u64 number);
  void compare(const Header& sent, const TensorArg& tensor) const;

  std::shared_ptr<const Members> members_;
  const CollectiveKind kind_;
  const std::string name_;
  const i64 rank_;  // the peer's
  std::vector<std::unique_ptr<Message>> messages_;
  std::vector<Delivery> sent_;
  std::vector<Receive> receives_;
  std::atomic<const char*> why_{""};
};

ExchangeTask::ExchangeTask(std::shared_ptr<const Members> members,
                           const Collective& collective,
                           const PeerExchange& part)
    : members_(std::move(members)),
      kind_(collective.kind),
      name_(collective.name),
      rank_(members_->rank_of(part.peer)) {
  u64 number = part.first_receive;
  for (const TensorArg& tensor : part.receives) start_receive(tensor, number++);
  number = part.first_send;
  for (const TensorArg& tensor : part.sends) start_send(collective, tensor, number++);
}

void ExchangeTask::start_receive(const TensorArg& tensor, u64 number) {
  Receive receive{tensor, number, make_message(), {}};
  receive.header = members_->transport->receive(
      rank_, members_->slot(Use::exchange_header, number), receive.message.get(), sizeof(Message));
  receives_.push_back(std::move(receive));
}

void ExchangeTask::start_send(const Collective& collective, const TensorArg& tensor, u64 number) {
  Transport& transport = *members_->transport;
  messages_.push_back(make_message(collective, members_->hash, tensor));
  const Message& message = *messages_.back();
  sent_.push_back(transport.send(
      rank_, members_->slot(Use::exchange_header, number), &message, message_bytes(message, true)));
  const i64 bytes = message.header.bytes;
  if (bytes <= kInlineBytes) return;
  sent_.push_back(
      transport.send(rank_, members_->slot(Use::exchange_data, number), tensor.address, bytes));
}

void ExchangeTask::compare(const Header& sent, const TensorArg& tensor) const {
  require(sent.group == members_->hash && sent.bytes == bytes_of(tensor) &&
              sent.dtype == tensor.dtype && sent.kind == kind_,
          "rank {} sends {}{}, but rank {} expects {} bytes {} by {}",
          rank_,
          text_of(sent),
          sent.group == members_->hash ? "" : " in a group of another name or other members",
          members_->rank_of(members_->index()),
          bytes_of(tensor),
          dtype_name(tensor.dtype),
          collective_name(kind_));
}

void ExchangeTask::run(Scratch&) {
  Transport& transport = *members_->transport;
  std::vector<Delivery> data;
  for (Receive& receive : receives_) {
    why_ = "has not sent";
    transport.wait(receive.header);
    compare(receive.message->header, receive.tensor);
    const i64 bytes = bytes_of(receive.tensor);
    if (bytes > kInlineBytes) {
      data.push_back(transport.receive(rank_,
                                       members_->slot(Use::exchange_data, receive.number),
                                       receive.tensor.address,
                                       bytes));
    } else if (bytes > 0) {
      std::memcpy(receive.tensor.address, receive.message->data, static_cast<std::size_t>(bytes));
    }
  }
  why_ = "has not sent its data";
  for (Delivery& delivery : data) transport.wait(delivery);
  why_ = "has not received";
  for (Delivery& delivery : sent_) transport.wait(delivery);
}

}  // namespace

std::unique_ptr<Task> make_exchange_task(std::shared_ptr<const Members> members,
                                         const Collective& collective,
                                         const PeerExchange& part) {
  return std::make_unique<ExchangeTask>(std::move(members), collective, part);
}

}  // namespace tessera::gloo_tcp

#pragma once
#include "group.hpp"

namespace tessera::gloo_tcp {

/// The part of an exchange that concerns one peer; the numbers count its messages.
struct PeerExchange {
  int peer;
  std::vector<TensorArg> sends, receives;
  u64 first_send, first_receive;
};

/// Sends and receives between this member and one peer: first in, first out in each direction. All
/// deliveries start when it is made.
class ExchangeTask : public Task {
 public:
  ExchangeTask(std::shared_ptr<const Members> members,
               const Collective& collective,
               const PeerExchange& part);
  void run(bool limited) override { run_until(parts_.size(), limited); }
  /// Runs until everything has arrived.
  void run_received(bool limited) { run_until(receives_, limited); }
  bool passes_on() const override { return false; }
  std::string title() const override {
    return fmt::format(
        "group {}: {} \"{}\"", members_->spec.name, collective_name(kind_), name_.view());
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
  void run_until(std::size_t end, bool limited);

  std::shared_ptr<const Members> members_;
  const CollectiveKind kind_;
  const CallName name_;
  const int peer_;
  std::vector<Part> parts_;           // receives first
  std::size_t receives_ = 0;          // how many
  std::atomic<std::size_t> done_{0};  // of parts_; the next one is waited for
};

}  // namespace tessera::gloo_tcp

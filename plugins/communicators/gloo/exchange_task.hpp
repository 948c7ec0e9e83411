#pragma once
#include <tessera/device/collective_call.hpp>

#include "group.hpp"

namespace tessera::gloo_tcp {

/// Sends and receives between this member and others: first in, first out for each directed pair.
/// All deliveries start when it is made; what goes to this member itself is copied then.
class ExchangeTask : public Task {
 public:
  ExchangeTask(std::shared_ptr<const Members> members,
               const HostGroup::Posted& posted,
               MessageCounts& counts);
  /// Is there nothing for others? Then it is complete.
  bool empty() const { return parts_.empty(); }
  void run(bool limited) override { run_until(parts_.size(), limited); }
  /// Runs until everything has arrived.
  void run_received(bool limited) { run_until(receives_, limited); }
  bool passes_on() const override { return false; }
  std::string waiting_for() const override;
  Statement statement(const Delivery& delivery) const override;

 private:
  struct Part {
    Delivery delivery;
    int peer;
    CollectiveCall call;
    u64 number;
  };
  void start(const Transfer& transfer, u64 number, bool sends);
  void run_until(std::size_t end, bool limited);

  std::shared_ptr<const Members> members_;
  std::vector<Part> parts_;           // receives first
  std::size_t receives_ = 0;          // how many
  std::atomic<std::size_t> done_{0};  // of parts_; the next one is waited for
};

}  // namespace tessera::gloo_tcp

#include "tessera/device/host_comm.hpp"
#include "tessera/device/device.hpp"

#include <utility>

namespace tessera {

HostGroup::HostGroup(Device& device, const GroupSpec& spec, i64 rank)
    : device_(device), spec_(std::make_shared<const GroupSpec>(spec)), rank_(rank) {}

HostGroup::~HostGroup() = default;

Error timed_out(std::chrono::duration<double> after, std::string_view waiting_for) {
  return Error(fmt::format("timed out after {:.1f} s: {}", after.count(), waiting_for),
               ErrorKind::peer_silent);
}

namespace {

// What the tasks of one collective share. A graph runs them again and again, so the ticket belongs
// to the last post, not to the call that made the tasks.
class HostPending : public PendingCollective, public std::enable_shared_from_this<HostPending> {
 public:
  HostPending(HostGroup& group, Collective collective, Stream& comm)
      : group_(group), collective_(std::move(collective)), comm_(comm) {}

  void post(Device& device) {
    device.launch_host(comm_, collective_.name.view(), [self = shared_from_this()] {
      self->ticket_ = self->group_.post(self->collective_);
    });
    posted_ = device.record(comm_);
  }

  void do_wait(Stream& stream) override { after_post(stream, Until::complete); }
  void do_wait_received(Stream& stream) override { after_post(stream, Until::received); }

  void do_join() override {
    wait(comm_);
    comm_.device().synchronize(comm_);
  }

 private:
  void after_post(Stream& stream, Until until) {
    Device& device = comm_.device();
    if (&stream != &comm_) device.wait(stream, posted_);
    device.launch_host_wait(stream, collective_.name.view(), [self = shared_from_this(), until] {
      self->group_.finish(self->ticket_, until);
    });
  }

  HostGroup& group_;
  Collective collective_;
  Stream& comm_;
  Event posted_;
  HostGroup::Ticket ticket_ = 0;
};

}  // namespace

std::shared_ptr<PendingCollective> HostGroup::do_start(Collective collective, Stream& after) {
  Stream& comm = device_.comm_stream(spec_->lane);
  if (&after != &comm) device_.wait(comm, device_.record(after));
  auto pending = std::make_shared<HostPending>(*this, std::move(collective), comm);
  pending->post(device_);
  return pending;
}

}  // namespace tessera

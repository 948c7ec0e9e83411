#include "tessera/host_comm.hpp"

#include <utility>

namespace tessera {

HostGroup::~HostGroup() = default;

namespace {

// Shared by the two tasks of one collective. A graph runs them again and again, so the ticket
// belongs to the last post, not to the call that made the tasks.
struct Launched {
  HostGroup& group;
  Collective collective;
  std::string post_name, finish_name;
  HostGroup::Ticket ticket = 0;
};

class HostPending : public PendingCollective {
 public:
  HostPending(std::shared_ptr<Launched> launched, Event posted, Stream& comm)
      : launched_(std::move(launched)), posted_(std::move(posted)), comm_(comm) {}

  void wait(Stream& stream) override {
    Device& device = comm_.device();
    if (&stream != &comm_) device.wait(stream, posted_);
    device.launch_host(stream, launched_->finish_name, [launched = launched_] {
      launched->group.finish(launched->ticket);
    });
  }

  void join() override {
    wait(comm_);
    comm_.device().synchronize(comm_);
  }

 private:
  std::shared_ptr<Launched> launched_;
  Event posted_;
  Stream& comm_;
};

}  // namespace

std::shared_ptr<PendingCollective> HostGroup::start(Collective collective, Stream& after) {
  Stream& comm = device_.comm_stream();
  std::string what = std::string(collective_name(collective.kind)) + " \"" + collective.name + "\"";
  auto launched = std::make_shared<Launched>(
      Launched{*this, std::move(collective), "post of " + what, "finish of " + what});
  if (&after != &comm) device_.wait(comm, device_.record(after));
  device_.launch_host(comm, launched->post_name, [launched] {
    launched->ticket = launched->group.post(launched->collective);
  });
  Event posted = device_.record(comm);
  return std::make_shared<HostPending>(std::move(launched), std::move(posted), comm);
}

}  // namespace tessera

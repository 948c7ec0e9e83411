#include "kernel/dry/simulated.hpp"

#include <utility>

#include "kernel/dry/meta_device.hpp"
#include "tessera/error.hpp"

namespace tessera {

struct SimulatedCommunicator::State {
  void waited(u64 id) const {
    if (events.waited) events.waited(id);
  }
  Events events;
  u64 next = 0;
};

namespace {

// Makes a graph of a device that is not there report a collective.
void report(Device& device, Stream& stream, std::function<void()> event) {
  auto* meta = dynamic_cast<MetaDevice*>(&device);
  require(meta != nullptr, "simulated collectives are captured on a meta device only");
  meta->add_event(stream, std::move(event));
}

}  // namespace

SimulatedCommunicator::SimulatedCommunicator(Events events)
    : state_(std::make_shared<State>(State{std::move(events)})) {}

std::unique_ptr<GroupBackend> SimulatedCommunicator::do_create_group(const GroupSpec& spec,
                                                                     Device& device) {
  // What is captured is reported with each replay.
  class Done final : public PendingCollective, public std::enable_shared_from_this<Done> {
   public:
    Done(std::shared_ptr<State> state, Device& device)
        : state_(std::move(state)), device_(device) {}
    void start(const GroupSpec& spec, const Collective& collective) {
      id_ = state_->next++;
      if (state_->events.started) state_->events.started(id_, spec, collective);
    }
    void do_wait(Stream& stream) override {
      if (!device_.capturing()) return state_->waited(id_);
      report(device_, stream, [self = shared_from_this()] { self->state_->waited(self->id_); });
    }
    void do_join() override { state_->waited(id_); }

   private:
    std::shared_ptr<State> state_;
    Device& device_;
    u64 id_ = 0;
  };
  class Group final : public GroupBackend {
   public:
    Group(std::shared_ptr<State> state, GroupSpec spec, Device& device)
        : state_(std::move(state)), spec_(std::move(spec)), device_(device) {}
    std::shared_ptr<PendingCollective> do_start(Collective collective, Stream& after) override {
      const auto done = std::make_shared<Done>(state_, device_);
      if (!device_.capturing()) {
        done->start(spec_, collective);
      } else {
        report(device_, after, [this, done, collective = std::move(collective)] {
          done->start(spec_, collective);
        });
      }
      return done;
    }
    bool capturable() const override { return state_->events.capturable; }
    bool counts_only() const override { return state_->events.counts_only; }

   private:
    std::shared_ptr<State> state_;
    GroupSpec spec_;
    Device& device_;
  };
  return std::make_unique<Group>(state_, spec, device);
}

}  // namespace tessera

#include "kernel/comm/simulated.hpp"

#include <utility>

namespace tessera {

struct SimulatedCommunicator::State {
  void waited(u64 id) const {
    if (events.waited) events.waited(id);
  }
  Events events;
  u64 next = 0;
};

SimulatedCommunicator::SimulatedCommunicator(Events events)
    : state_(std::make_shared<State>(State{std::move(events)})) {}

std::unique_ptr<GroupBackend> SimulatedCommunicator::create_group(const GroupSpec& spec, Device&) {
  class Done final : public PendingCollective {
   public:
    Done(std::shared_ptr<State> state, u64 id) : state_(std::move(state)), id_(id) {}
    void wait(Stream&) override { state_->waited(id_); }
    void join() override { state_->waited(id_); }

   private:
    std::shared_ptr<State> state_;
    u64 id_;
  };
  class Group final : public GroupBackend {
   public:
    Group(std::shared_ptr<State> state, GroupSpec spec)
        : state_(std::move(state)), spec_(std::move(spec)) {}
    std::shared_ptr<PendingCollective> start(Collective collective, Stream&) override {
      const u64 id = state_->next++;
      if (state_->events.started) state_->events.started(id, spec_, collective);
      return std::make_shared<Done>(state_, id);
    }
    bool capturable() const override { return true; }

   private:
    std::shared_ptr<State> state_;
    GroupSpec spec_;
  };
  return std::make_unique<Group>(state_, spec);
}

}  // namespace tessera

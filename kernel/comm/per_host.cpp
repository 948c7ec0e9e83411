#include "kernel/comm/per_host.hpp"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "tessera/error.hpp"
#include "tessera/host_comm.hpp"

namespace tessera {

namespace {

using namespace std::chrono_literals;

// The keys of one host's ranks.
class HostStore : public Store {
 public:
  HostStore(Store& store, i64 first_rank)
      : store_(store), prefix_(fmt::format("host of {}/", first_rank)) {}
  void set(std::string_view key, std::string_view value) override { store_.set(path(key), value); }
  std::string get(std::string_view key, std::chrono::milliseconds timeout) override {
    return store_.get(path(key), timeout);
  }
  i64 add(std::string_view key, i64 amount) override { return store_.add(path(key), amount); }

 private:
  std::string path(std::string_view key) const { return prefix_ + std::string(key); }
  Store& store_;
  std::string prefix_;
};

// While the rank waits for another host, its neighbours may need it to move on.
class Pump {
 public:
  Pump(Communicator& within, Communicator& between)
      : within_(within), between_(between), thread_([this] { run(); }) {}
  ~Pump() { stop(); }
  Pump(const Pump&) = delete;
  Pump& operator=(const Pump&) = delete;

  // Throws what went wrong here.
  void end() {
    stop();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (!stop_) {
      lock.unlock();
      bool open = false;
      try {
        open = within_.progress();
      } catch (const std::exception& error) {
        failure_ = std::current_exception();
        between_.abort(error.what());  // ends the rank's wait
      }
      lock.lock();
      if (!open) return;  // nothing new starts while the rank waits
      changed_.wait_for(lock, 50us, [this] { return stop_; });
    }
  }

  Communicator& within_;
  Communicator& between_;
  std::exception_ptr failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread thread_;  // the last: it uses all of the above
};

class BetweenGroup : public HostGroup {
 public:
  BetweenGroup(Device& device,
               CommLane lane,
               std::unique_ptr<GroupBackend> group,
               std::shared_ptr<Communicator> within,
               std::shared_ptr<Communicator> between)
      : HostGroup(device, lane),
        within_(std::move(within)),
        between_(std::move(between)),
        owner_(std::move(group)),
        group_(*owner_->host_group()) {}

  Ticket post(const Collective& collective) override { return group_.post(collective); }
  void finish(Ticket ticket) override {
    while_within_moves([&] { group_.finish(ticket); });
  }
  void finish_received(Ticket ticket) override {
    while_within_moves([&] { group_.finish_received(ticket); });
  }

 private:
  template <class Wait>
  void while_within_moves(Wait&& wait) {
    if (!within_->progress()) return wait();
    Pump pump(*within_, *between_);
    try {
      wait();
    } catch (...) {
      pump.end();  // the cause, where that was there
      throw;
    }
    pump.end();
  }

  std::shared_ptr<Communicator> within_, between_;
  std::unique_ptr<GroupBackend> owner_;
  HostGroup& group_;
};

}  // namespace

PerHostCommunicator::PerHostCommunicator(const Hosts& hosts,
                                         const CommunicatorArguments& arguments,
                                         const MakeCommunicator& make_within,
                                         const MakeCommunicator& make_between)
    : hosts_(hosts) {
  require(hosts_.world() == arguments.world,
          "the hosts of {} ranks are known, of {}",
          hosts_.world(),
          arguments.world);
  const std::vector<i64>& neighbours = hosts_.neighbours(arguments.rank);
  if (neighbours.size() > 1) {
    local_store_ = std::make_unique<HostStore>(*arguments.store, neighbours.front());
    CommunicatorArguments local = arguments;
    local.rank = hosts_.local_rank(arguments.rank);
    local.world = static_cast<i64>(neighbours.size());
    local.store = local_store_.get();
    local.numbers = neighbours;
    within_ = make_within(local);
  }
  CommunicatorArguments all = arguments;
  between_ = make_between(all);
  if (within_ != nullptr && within_->memory_kind() != between_->memory_kind()) {
    fail_config(
        "communicator \"{}\", within hosts, carries tensors in memory of kind \"{}\", and \"{}\", "
        "between them, in memory of kind \"{}\": choose two for one kind",
        within_->name(),
        within_->memory_kind(),
        between_->name(),
        between_->memory_kind());
  }
  name_ = within_ == nullptr
              ? std::string(between_->name())
              : fmt::format("{} within hosts, {} between", within_->name(), between_->name());
}

PerHostCommunicator::~PerHostCommunicator() = default;

std::unique_ptr<GroupBackend> PerHostCommunicator::create_group(const GroupSpec& spec,
                                                                Device& device) {
  if (within_ != nullptr && hosts_.together(spec.members)) {
    GroupSpec local = spec;
    for (i64& member : local.members) member = hosts_.local_rank(member);
    return within_->create_group(local, device);
  }
  std::unique_ptr<GroupBackend> group = between_->create_group(spec, device);
  // Others do not block the rank's thread.
  if (within_ == nullptr || group->host_group() == nullptr) return group;
  return std::make_unique<BetweenGroup>(device, spec.lane, std::move(group), within_, between_);
}

std::shared_ptr<MemorySource> PerHostCommunicator::memory() {
  return within_ == nullptr ? nullptr : within_->memory();
}

bool PerHostCommunicator::progress() {
  const bool open = within_ != nullptr && within_->progress();
  return between_->progress() || open;
}

void PerHostCommunicator::abort(std::string_view reason) noexcept {
  // The neighbours first, as that takes no network.
  if (within_ != nullptr) within_->abort(reason);
  between_->abort(reason);
}

}  // namespace tessera

#include "watchdog.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "library.hpp"
#include "tessera/device/host_comm.hpp"
#include "tessera/log.hpp"

namespace tessera::nccl {

using namespace std::chrono_literals;

namespace {

constexpr auto kLook = 50ms;
constexpr auto kToTell = 2s;    // peers of a failure
constexpr auto kToAbort = 10s;  // ncclCommAbort may hang (NVIDIA/nccl issue 829)

bool reached(cudaEvent_t event) {
  const cudaError_t result = cudaEventQuery(event);
  // An error of the GPU is told by the device. Nothing is waited for in vain then.
  return result != cudaErrorNotReady;
}

std::string whom_it_waits_for(const GroupSpec& group) {
  if (group.size() == 2) return fmt::format("rank {} has not come", group.rank_of(1 - group.index));
  return fmt::format("one of the other {} ranks of {} has not come", group.size() - 1, group.name);
}

}  // namespace

EventPool::~EventPool() {
  for (cudaEvent_t event : free_) (void)cudaEventDestroy(event);
}

cudaEvent_t EventPool::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      cudaEvent_t event = free_.back();
      free_.pop_back();
      return event;
    }
  }
  cudaEvent_t event = nullptr;
  cuda::check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  return event;
}

void EventPool::give_back(cudaEvent_t event) {
  const std::lock_guard lock(mutex_);
  free_.push_back(event);
}

Watchdog::Watchdog(const CommunicatorArguments& arguments, Ends ends)
    : arguments_(arguments),
      ends_(std::move(ends)),
      mail_(std::make_unique<FailureMail>(arguments, kName, [this](const RankFailure& failure) {
        fail(failure.error(arguments_.number(arguments_.rank)), true);
      })) {}

Watchdog::~Watchdog() {
  stop();
  for (auto& [stream, items] : watched_) {
    for (const Item& item : items) {
      events_.give_back(item.begin);
      events_.give_back(item.end);
    }
  }
}

void Watchdog::start() {
  mail_->start();
  thread_ = std::thread([this] { run(); });
}

void Watchdog::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  mail_.reset();
}

void Watchdog::begin(cudaStream_t stream, const CollectivePlace& place, bool first) {
  drop(open_.extract(stream));  // whose launch failed
  Item item{.place = place, .first = first, .begin = events_.take(), .end = events_.take()};
  cuda::check(cudaEventRecord(item.begin, stream), "cudaEventRecord");
  open_.emplace(stream, std::move(item));
}

void Watchdog::drop(std::map<cudaStream_t, Item>::node_type item) {
  if (item.empty()) return;
  events_.give_back(item.mapped().begin);
  events_.give_back(item.mapped().end);
}

void Watchdog::end(cudaStream_t stream) {
  auto item = open_.extract(stream);
  cuda::check(cudaEventRecord(item.mapped().end, stream), "cudaEventRecord");
  const std::lock_guard lock(mutex_);
  watched_[stream].push_back(std::move(item.mapped()));
}

void Watchdog::begin_replay(cudaStream_t stream, const CollectivePlace& place) {
  const auto open = open_.find(stream);
  if (open == open_.end()) begin(stream, place, false);
  ++open_.at(stream).of_graph;
}

void Watchdog::end_replay(cudaStream_t stream) {
  if (open_.contains(stream)) end(stream);
}

void Watchdog::check() {
  std::unique_lock lock(mutex_);
  if (!failure_) return;
  changed_.wait(lock, [&] { return over_; });
  failure_->raise();
}

bool Watchdog::failed() {
  const std::lock_guard lock(mutex_);
  return failure_.has_value();
}

void Watchdog::fail(const Error& error, bool told) noexcept {
  {
    std::unique_lock lock(mutex_);
    if (failure_ || ending_) {
      changed_.wait(lock, [&] { return over_ || ending_; });
      return;
    }
    failure_ = error;
  }
  tell_and_abort(error, told);
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
}

// Peers first: an abort that hangs ends this process.
void Watchdog::tell_and_abort(const Error& error, bool told) noexcept {
  std::mutex mutex;
  std::condition_variable done;
  int steps = 0;
  const auto step = [&](const std::function<void()>& body) {
    return std::thread([&, body] {
      body();
      const std::lock_guard lock(mutex);
      ++steps;
      done.notify_all();
    });
  };
  const auto ended = [&](int wanted, Clock::duration within) {
    std::unique_lock lock(mutex);
    return done.wait_for(lock, within, [&] { return steps >= wanted; });
  };
  std::thread teller = step([&] {
    if (!told) mail_->tell({arguments_.number(arguments_.rank), error.what()});
  });
  if (!ended(1, kToTell)) mail_->hang_up();
  teller.join();
  std::thread aborter = step(ends_.abort);
  if (!ended(2, kToAbort)) {
    log(LogLevel::error,
        fmt::format("{}; and NCCL has not ended its communicators {} s after it was told to: this "
                    "process ends, since its GPU would wait for ever",
                    error.what(),
                    std::chrono::seconds(kToAbort).count()));
    std::abort();
  }
  aborter.join();
}

void Watchdog::run() {
  std::unique_lock lock(mutex_);
  while (!ending_ && !failure_) {
    changed_.wait_for(lock, kLook, [&] { return ending_ || failure_.has_value(); });
    if (ending_ || failure_) return;
    lock.unlock();
    look();
    lock.lock();
  }
}

void Watchdog::look() {
  std::optional<Error> found;
  {
    const std::lock_guard lock(mutex_);
    const Clock::duration stood_still = stood_still_.look(kLook);
    for (auto& [stream, items] : watched_) {
      while (!items.empty() && reached(items.front().end)) {
        events_.give_back(items.front().begin);
        events_.give_back(items.front().end);
        items.pop_front();
      }
      if (!found && !items.empty()) found = late(items.front(), stood_still);
    }
  }
  // What NCCL knows says more than that time is up.
  if (auto told = ends_.ask()) found = std::move(told);
  if (found) fail(*found);
}

std::optional<Error> Watchdog::late(Item& item, Clock::duration stood_still) {
  const Clock::time_point now = Clock::now();
  if (!item.since) {
    if (reached(item.begin)) item.since = now;
    return {};
  }
  *item.since += stood_still;
  const Clock::duration passed = now - *item.since;
  if (passed <= arguments_.timeout) return {};
  Error error = timed_out(passed, whom_it_waits_for(*item.place.group));
  if (item.first) {
    error.add(
        ErrorFrame::Kind::advice,
        "nothing has passed between these ranks yet. Where NCCL took a network interface that "
        "does not lead to the others, NCCL_SOCKET_IFNAME names the right one; where GPUs of a "
        "host cannot reach each other, NCCL_P2P_DISABLE=1 goes around");
  }
  const std::string graph =
      item.of_graph == 0 ? "" : fmt::format(", one of {} collectives of a graph", item.of_graph);
  error.add(ErrorFrame::Kind::collective, item.place.text() + graph);
  return error;
}

}  // namespace tessera::nccl

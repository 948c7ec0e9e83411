#include "watchdog.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <system_error>
#include <utility>

#include "library.hpp"
#include "tessera/device/host_comm.hpp"
#include "tessera/log.hpp"

namespace tessera::nccl {

using namespace std::chrono_literals;

namespace {

constexpr auto kLook = 50ms;
constexpr auto kToTell = 2s;     // peers of a failure
constexpr auto kToHear = 200ms;  // for peers
constexpr auto kToAbort = 10s;   // ncclCommAbort may hang (NVIDIA/nccl issue 829)

bool reached(cudaEvent_t event) {
  const cudaError_t result = cudaEventQuery(event);
  // An error of the GPU is told by the device. Nothing is waited for in vain then.
  return result != cudaErrorNotReady;
}

// Runs `body` on a thread of its own, and calls `late` where that takes longer than `limit`.
void limited(const std::function<void()>& body,
             Clock::duration limit,
             const std::function<void()>& late) {
  std::mutex mutex;
  std::condition_variable ended;
  bool over = false;
  std::thread thread;
  try {
    thread = std::thread([&] {
      body();
      const std::lock_guard lock(mutex);
      over = true;
      ended.notify_all();
    });
  } catch (const std::system_error&) {  // the system has no more of them
    return body();
  }
  {
    std::unique_lock lock(mutex);
    if (!ended.wait_for(lock, limit, [&] { return over; })) {
      lock.unlock();
      late();
    }
  }
  thread.join();
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
  if (aborter_.joinable()) aborter_.join();
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

// It does not wait for the aborts: they wait until graphs are destroyed, which the rank's thread
// does when this has thrown.
void Watchdog::check() {
  const std::lock_guard lock(mutex_);
  if (failure_) failure_->raise();
}

bool Watchdog::failed() {
  const std::lock_guard lock(mutex_);
  return failure_.has_value();
}

void Watchdog::fail(const Error& error, bool told) noexcept {
  {
    std::unique_lock lock(mutex_);
    if (failure_ || ending_) {
      changed_.wait(lock, [&] { return aborting_ || ending_; });
      return;
    }
    failure_ = error;
  }
  if (!told) {
    const RankFailure failure{arguments_.number(arguments_.rank), error.what()};
    limited([&] { mail_->tell(failure); }, kToTell, [this] { mail_->hang_up(); });
    // A kernel that is aborted lets its peers' kernels go on, without data: they hear of it first.
    std::this_thread::sleep_for(kToHear);
  }
  // The rank reports meanwhile why it fails; a process that is gone could not.
  const auto abort = [this, why = std::string(error.what())] {
    limited(ends_.abort, kToAbort, [&] {
      log(LogLevel::error,
          fmt::format(
              "{}; and NCCL has not ended its communicators {} s after it was told to: this "
              "process ends, since its GPU would wait for ever",
              why,
              std::chrono::seconds(kToAbort).count()));
      std::abort();
    });
  };
  try {
    aborter_ = std::thread(abort);
  } catch (const std::system_error&) {  // the system has no more of them
    abort();
  }
  {
    const std::lock_guard lock(mutex_);
    aborting_ = true;
  }
  changed_.notify_all();
}

void Watchdog::run() {
  std::unique_lock lock(mutex_);
  while (!ending_ && !failure_) {
    stood_still_.look();  // the looks below may take long
    changed_.wait_for(lock, kLook, [&] { return ending_ || failure_.has_value(); });
    const Clock::duration stood_still = stood_still_.look(kLook);
    if (ending_ || failure_) return;
    lock.unlock();
    look(stood_still);
    lock.lock();
  }
}

std::optional<Watchdog::Item> Watchdog::front(cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  const std::deque<Item>& items = watched_[stream];
  return items.empty() ? std::nullopt : std::optional(items.front());
}

void Watchdog::pop(cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  std::deque<Item>& items = watched_[stream];
  events_.give_back(items.front().begin);
  events_.give_back(items.front().end);
  items.pop_front();
}

// CUDA is asked without the lock: a question may block beside another thread's call, and check()
// and fail() must not wait for that. Only this thread takes items away.
void Watchdog::look(Clock::duration stood_still) {
  std::vector<cudaStream_t> streams;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [stream, items] : watched_) streams.push_back(stream);
  }
  std::optional<Error> found;
  std::string waiting;
  for (cudaStream_t stream : streams) {
    while (auto item = front(stream)) {
      if (reached(item->end)) {
        pop(stream);
        continue;
      }
      if (!found) found = late(stream, *item, stood_still);
      if (waiting.empty()) waiting = item->text();
      break;
    }
  }
  // What NCCL knows says more than that time is up.
  if (auto told = ends_.ask()) {
    if (!waiting.empty()) told->add(ErrorFrame::Kind::collective, waiting);
    found = std::move(told);
  }
  if (!found) return;
  const bool of_peer = found->kind() == ErrorKind::peer_failed;
  if (of_peer) {  // a lost connection: why it was lost is on its way through the store
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, 1s, [&] { return ending_ || failure_.has_value(); });
    if (ending_ || failure_) return;
  }
  fail(*found, of_peer);  // others would take this rank for the one that failed
}

std::string Watchdog::Item::text() const {
  return place.text() +
         (of_graph == 0 ? "" : fmt::format(", one of {} collectives of a graph", of_graph));
}

std::optional<Error> Watchdog::late(cudaStream_t stream,
                                    const Item& item,
                                    Clock::duration stood_still) {
  const Clock::time_point now = Clock::now();
  if (!item.since && !reached(item.begin)) return {};
  const Clock::time_point since = item.since.value_or(now) + stood_still;
  {
    const std::lock_guard lock(mutex_);
    watched_[stream].front().since = since;
  }
  const Clock::duration passed = now - since;
  if (passed <= arguments_.timeout) return {};
  Error error = timed_out(passed, whom_it_waits_for(*item.place.group));
  if (item.first) {
    error.add(
        ErrorFrame::Kind::advice,
        "nothing has passed between these ranks yet. Where NCCL took a network interface that "
        "does not lead to the others, NCCL_SOCKET_IFNAME names the right one; where GPUs of a "
        "host cannot reach each other, NCCL_P2P_DISABLE=1 goes around");
  }
  error.add(ErrorFrame::Kind::collective, item.text());
  return error;
}

}  // namespace tessera::nccl

// NCCL for the emulator: ranks are threads of one process. A collective blocks its stream until all
// members have come to it there, as on GPUs; calls in one group make progress together. Sums go
// around a ring and are rounded at each hop. What the library leaves undefined, members whose calls
// differ, is an error here.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cuda_runtime.h"
#include "plugins/communicators/nccl/library.hpp"
#include "tessera/device/small_floats.hpp"
#include "tessera/types.hpp"

namespace tessera::nccl {

namespace {

struct Call {
  enum Kind { all_reduce, broadcast, all_gather, reduce_scatter, send, receive } kind;
  const void* input;
  void* output;
  std::size_t count;
  int type, detail;                           // the reduction, the root or the peer
  bool operator==(const Call& other) const {  // what members have to agree on
    return kind == other.kind && count == other.count && type == other.type &&
           detail == other.detail;
  }
};

// A collective on its way.
struct Meeting {
  std::vector<Call> calls;  // by rank, of those that have come
  std::vector<bool> here;
  std::size_t come = 0;
};

// One end of a transfer that waits for the other.
struct End {
  const void* from;
  void* to;
  std::size_t count;
  std::shared_ptr<bool> done;
};
struct Pair {
  std::deque<End> sends, receives;
};

// What members share.
struct Hub {
  explicit Hub(int ranks) : members(static_cast<std::size_t>(ranks)) {}
  std::vector<Comm*> members;
  int come = 0;  // those whose communicator is made
  std::map<u64, Meeting> meetings;
  u64 ended = 0;  // meetings below this number have taken place
  std::map<std::pair<int, int>, Pair> pairs;
};

}  // namespace

struct Comm {
  std::shared_ptr<Hub> hub;
  int rank = 0;
  u64 next = 0, operations = 0;
  std::atomic<int> launches = 0;  // enqueued and not over, or in a graph
  bool aborted = false;
  int failure = kSuccess;
  std::string last_error;
};

namespace {

// All of it changes under one lock.
struct State {
  std::mutex mutex;
  std::vector<std::unique_ptr<Comm>>
      comms;  // all; one that has ended stays, so that its use is seen
  std::map<std::string, std::shared_ptr<Hub>> hubs;  // by id
  u64 ids = 0;
};
State& state() {
  static State instance;
  return instance;
}

// "fail:1:5" of TESSERA_EMULATED_NCCL: the fifth operation of member 1 of a communicator fails. It
// is read whenever it is asked for, so that a test has several.
bool planted(const char* what, int rank, u64 operation) {
  const char* text = std::getenv("TESSERA_EMULATED_NCCL");
  return text != nullptr && text == fmt::format("{}:{}:{}", what, rank, operation);
}
bool planted(std::string_view what) {
  const char* text = std::getenv("TESSERA_EMULATED_NCCL");
  return text != nullptr && text == what;
}

thread_local int t_depth = 0;
struct Queued {
  Comm* comm;
  cudaStream_t stream;
  Call call;
};
thread_local std::vector<Queued> t_queued;

}  // namespace

namespace {

bool over(const Comm& comm) { return comm.aborted || comm.failure != kSuccess; }
// Its memory may be gone: nothing that it has come to takes place any more.
bool has_left(const Comm* member) { return member == nullptr || member->aborted; }

void fail_all(Hub& hub, int result, const std::string& why) {
  for (Comm* member : hub.members) {
    if (member == nullptr || member->failure != kSuccess) continue;
    member->failure = result;
    member->last_error = why;
  }
}

template <class T>
T reduced(T a, T b, int how) {
  if constexpr (std::is_integral_v<T>) {
    return how == kSum ? static_cast<T>(a + b) : how == kMax ? std::max(a, b) : std::min(a, b);
  } else {
    const auto x = static_cast<double>(a), y = static_cast<double>(b);
    return static_cast<T>(how == kSum ? x + y : how == kMax ? std::fmax(x, y) : std::fmin(x, y));
  }
}

// A chunk goes around the ring and ends at `last`; each member on its way adds its own.
template <class T>
std::vector<T> around(const Meeting& meeting,
                      std::size_t begin,
                      std::size_t count,
                      std::size_t last) {
  const std::size_t ranks = meeting.calls.size();
  std::vector<T> sum(count);
  for (std::size_t hop = 1; hop <= ranks; ++hop) {
    const Call& of = meeting.calls[(last + hop) % ranks];
    const T* own = static_cast<const T*>(of.input) + begin;
    for (std::size_t i = 0; i < count; ++i) {
      sum[i] = hop == 1 ? own[i] : reduced(sum[i], own[i], of.detail);
    }
  }
  return sum;
}

template <class T>
void reduce(const Meeting& meeting) {
  const std::size_t ranks = meeting.calls.size();
  const Call& any = meeting.calls.front();
  const bool scatter = any.kind == Call::reduce_scatter;
  const std::size_t whole = scatter ? any.count * ranks : any.count;
  const std::size_t chunk = scatter ? any.count : (whole + ranks - 1) / ranks;
  std::vector<std::vector<T>> sums;
  for (std::size_t r = 0; r < ranks; ++r) {
    const std::size_t begin = std::min(r * chunk, whole);
    sums.push_back(around<T>(meeting, begin, std::min(chunk, whole - begin), r));
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    T* out = static_cast<T*>(meeting.calls[rank].output);
    for (std::size_t r = 0; r < ranks; ++r) {
      if (scatter && r != rank) continue;
      out = std::copy(sums[r].begin(), sums[r].end(), out);
    }
  }
}

void reduce(const Meeting& meeting, int type) {
  switch (type) {
    case kFp64:
      return reduce<double>(meeting);
    case kFp16:
      return reduce<Float16>(meeting);
    case kBf16:
      return reduce<BFloat16>(meeting);
    case kI64:
      return reduce<i64>(meeting);
    case kI32:
      return reduce<std::int32_t>(meeting);
    case kU8:
      return reduce<std::uint8_t>(meeting);
    default:
      return reduce<float>(meeting);
  }
}

std::size_t width(int type) {
  return type == kU8                      ? 1
         : type == kFp16 || type == kBf16 ? 2
         : type == kI64 || type == kFp64  ? 8
                                          : 4;
}

// All members are here.
void take_place(const Meeting& meeting) {
  const Call& any = meeting.calls.front();
  const std::size_t bytes = any.count * width(any.type);
  if (any.kind == Call::all_reduce || any.kind == Call::reduce_scatter) {
    return reduce(meeting, any.type);
  }
  if (any.kind == Call::broadcast) {
    const void* from = meeting.calls[static_cast<std::size_t>(any.detail)].input;
    for (const Call& to : meeting.calls) {
      if (to.output != from) std::memcpy(to.output, from, bytes);
    }
    return;
  }
  for (std::size_t r = 0; r < meeting.calls.size(); ++r) {
    for (const Call& to : meeting.calls) {
      std::memmove(static_cast<std::byte*>(to.output) + r * bytes, meeting.calls[r].input, bytes);
    }
  }
}

void match(Hub& hub, int from, int to) {
  for (const int end : {from, to}) {
    if (has_left(hub.members[static_cast<std::size_t>(end)])) return;
  }
  Pair& pair = hub.pairs[{from, to}];
  while (!pair.sends.empty() && !pair.receives.empty()) {
    const End send = pair.sends.front(), receive = pair.receives.front();
    pair.sends.pop_front();
    pair.receives.pop_front();
    if (send.count != receive.count) {
      return fail_all(hub,
                      kInvalidUsage,
                      fmt::format("member {} sends {} bytes, and member {} receives {}",
                                  from,
                                  send.count,
                                  to,
                                  receive.count));
    }
    std::memcpy(receive.to, send.from, send.count);
    *send.done = *receive.done = true;
  }
}

// What one launch does on the GPU. Begins anew at each replay of a graph.
class Launch {
 public:
  Launch(Comm* comm, std::vector<Call> calls) : comm_(comm), calls_(std::move(calls)) {
    ++comm_->launches;
  }
  ~Launch() { --comm_->launches; }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  void begin() {
    const std::lock_guard lock(state().mutex);
    ends_.clear();
    number_ = kNever;
    const u64 operation = ++comm_->operations;
    if (over(*comm_)) return;
    lost_ = planted("lose", comm_->rank, operation);
    if (lost_) return;
    if (planted("fail", comm_->rank, operation)) {
      comm_->failure = kInternalError;
      comm_->last_error = "a planted failure";
      return;
    }
    Hub& hub = *comm_->hub;
    if (calls_.front().kind == Call::send || calls_.front().kind == Call::receive) {
      for (const Call& call : calls_) post(hub, call);
    } else {
      meet(hub, calls_.front());
    }
  }

  bool done() {
    const std::lock_guard lock(state().mutex);
    if (comm_->aborted) return true;
    if (lost_ || comm_->failure != kSuccess) return false;  // until it is aborted
    if (number_ != kNever) return number_ < comm_->hub->ended;
    return std::ranges::all_of(ends_, [](const auto& end) { return *end; });
  }

 private:
  static constexpr u64 kNever = ~u64{0};

  void meet(Hub& hub, const Call& call) {
    number_ = comm_->next++;
    Meeting& meeting = hub.meetings[number_];
    meeting.calls.resize(hub.members.size());
    meeting.here.resize(hub.members.size());
    const auto own = static_cast<std::size_t>(comm_->rank);
    for (std::size_t r = 0; r < meeting.calls.size(); ++r) {
      if (!meeting.here[r] || meeting.calls[r] == call) continue;
      return fail_all(hub, kInvalidUsage, fmt::format("members {} and {} differ", r, own));
    }
    meeting.calls[own] = call;
    meeting.here[own] = true;
    if (++meeting.come < hub.members.size() || std::ranges::any_of(hub.members, has_left)) return;
    take_place(meeting);
    hub.ended = number_ + 1;
    hub.meetings.erase(number_);
  }

  void post(Hub& hub, const Call& call) {
    ends_.push_back(std::make_shared<bool>(false));
    End end{call.input, call.output, call.count * width(call.type), ends_.back()};
    const bool sends = call.kind == Call::send;
    const int from = sends ? comm_->rank : call.detail, to = sends ? call.detail : comm_->rank;
    Pair& pair = hub.pairs[{from, to}];
    (sends ? pair.sends : pair.receives).push_back(std::move(end));
    match(hub, from, to);
  }

  Comm* comm_;
  const std::vector<Call> calls_;
  u64 number_ = kNever;
  bool lost_ = false;
  std::vector<std::shared_ptr<bool>> ends_;
};

int enqueue(Comm* comm, cudaStream_t stream, std::vector<Call> calls) {
  const auto launch = std::make_shared<Launch>(comm, std::move(calls));
  const cudaError_t result = cuda::emulated::enqueue_waiting(
      stream, [launch] { launch->begin(); }, [launch] { return launch->done(); });
  constexpr int kUnhandledCudaError = 1;
  return result == cudaSuccess ? kSuccess : kUnhandledCudaError;
}

int add(Comm* comm, cudaStream_t stream, const Call& call) {
  {
    const std::lock_guard lock(state().mutex);
    if (comm->aborted) return kInvalidUsage;  // the library's would crash
  }
  t_queued.push_back({comm, stream, call});
  return kSuccess;
}

int group_start() {
  ++t_depth;
  return kSuccess;
}

int group_end() {
  if (--t_depth > 0) return kSuccess;
  std::vector<Queued> queued = std::exchange(t_queued, {});
  std::map<std::pair<Comm*, cudaStream_t>, std::vector<Call>> transfers;
  int result = kSuccess;
  for (const Queued& each : queued) {
    if (each.call.kind == Call::send || each.call.kind == Call::receive) {
      transfers[{each.comm, each.stream}].push_back(each.call);
    } else {
      result = std::max(result, enqueue(each.comm, each.stream, {each.call}));
    }
  }
  for (auto& [where, calls] : transfers) {
    result = std::max(result, enqueue(where.first, where.second, std::move(calls)));
  }
  return result;
}

int version(int* version) {
  static std::atomic<int> asked{0};
  constexpr int kUsual = 22809, kOther = 22703, kOld = 22507;
  *version = kUsual;
  if (planted("old")) *version = kOld;
  if (planted("mixed") && asked++ % 2 == 1) *version = kOther;
  return kSuccess;
}

const char* error_text(int result) {
  return result == kInvalidUsage    ? "invalid usage"
         : result == kRemoteError   ? "remote process exited or there was a network error"
         : result == kInternalError ? "internal error"
                                    : "unhandled cuda error";
}

const char* last_error(Comm* comm) {
  const std::lock_guard lock(state().mutex);
  return comm == nullptr ? "" : comm->last_error.c_str();
}

int unique_id(UniqueId* id) {
  const std::lock_guard lock(state().mutex);
  *id = {};
  fmt::format_to_n(id->bytes, sizeof id->bytes - 1, "world {}", ++state().ids);
  return kSuccess;
}

int init(Comm** comm, int ranks, UniqueId id, int rank, Config* config) {
  if (config->blocking != 0) return kInvalidUsage;  // the plugin's never are
  const std::lock_guard lock(state().mutex);
  std::shared_ptr<Hub>& hub = state().hubs[id.bytes];
  if (hub == nullptr) hub = std::make_shared<Hub>(ranks);
  *comm = state().comms.emplace_back(std::make_unique<Comm>()).get();
  (*comm)->hub = hub;
  (*comm)->rank = rank;
  hub->members[static_cast<std::size_t>(rank)] = *comm;
  if (++hub->come == ranks) state().hubs.erase(id.bytes);
  return kInProgress;
}

int async_error(Comm* comm, int* result) {
  const std::lock_guard lock(state().mutex);
  const bool made = comm->hub->come == static_cast<int>(comm->hub->members.size());
  *result = comm->failure != kSuccess ? comm->failure : made ? kSuccess : kInProgress;
  return kSuccess;
}

// As the library's it returns when nothing that it launched is left, in a stream or in a graph.
int end(Comm* comm) {
  {
    const std::lock_guard lock(state().mutex);
    comm->aborted = true;
  }
  while (comm->launches > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const std::lock_guard lock(state().mutex);
  for (Comm*& member : comm->hub->members) {
    if (member == comm) member = nullptr;
  }
  return kSuccess;
}

int abort(Comm* comm) {
  while (planted("stuck_abort")) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return end(comm);
}

int finalize(Comm*) { return kSuccess; }

Library checked(const Library& library) {
  require_version(library);
  return library;
}

}  // namespace

const Library& open_nccl() {
  static const Library kLibrary = checked({
      .version = &version,
      .error_text = &error_text,
      .last_error = &last_error,
      .unique_id = &unique_id,
      .init = &init,
      .finalize = &finalize,
      .destroy = &end,
      .abort = &abort,
      .async_error = &async_error,
      .group_start = &group_start,
      .group_end = &group_end,
      .all_reduce =
          [](const void* input, void* output, auto count, int type, int how, Comm* comm, auto at) {
            return add(comm, at, {Call::all_reduce, input, output, count, type, how});
          },
      .broadcast =
          [](const void* input, void* output, auto count, int type, int root, Comm* comm, auto at) {
            return add(comm, at, {Call::broadcast, input, output, count, type, root});
          },
      .all_gather =
          [](const void* input, void* output, auto sent, int type, Comm* comm, auto at) {
            return add(comm, at, {Call::all_gather, input, output, sent, type, 0});
          },
      .reduce_scatter =
          [](const void* input, void* output, auto count, int type, int how, Comm* comm, auto at) {
            return add(comm, at, {Call::reduce_scatter, input, output, count, type, how});
          },
      .send =
          [](const void* data, auto count, int type, int peer, Comm* comm, auto at) {
            return add(comm, at, {Call::send, data, nullptr, count, type, peer});
          },
      .receive =
          [](void* data, auto count, int type, int peer, Comm* comm, auto at) {
            return add(comm, at, {Call::receive, nullptr, data, count, type, peer});
          },
  });
  return kLibrary;
}

}  // namespace tessera::nccl

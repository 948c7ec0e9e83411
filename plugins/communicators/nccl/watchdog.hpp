#pragma once
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime.hpp"
#include "tessera/device/communicator.hpp"
#include "tessera/device/failure_mail.hpp"
#include "tessera/device/stood_still.hpp"
#include "tessera/error.hpp"

namespace tessera::nccl {

using Clock = std::chrono::steady_clock;

/// Events that nobody uses, to be recorded again. Any thread.
class EventPool {
 public:
  ~EventPool();
  cudaEvent_t take();
  void give_back(cudaEvent_t event);

 private:
  std::mutex mutex_;
  std::vector<cudaEvent_t> free_;
};

/// A thread that finds collectives which do not end, and failures of NCCL and of peers, while the
/// rank's own thread may be blocked inside CUDA. It ends communication once: it tells the peers,
/// then aborts, so that what the GPU waits for ends. The failure stays, and check() throws it.
class Watchdog {
 public:
  struct Ends {
    std::function<std::optional<Error>()> ask;  ///< what NCCL says of its communicators
    std::function<void()> abort;                ///< all communicators, at once; may hang
  };
  Watchdog(const CommunicatorArguments& arguments, Ends ends);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  const std::string& prefix() const { return mail_->prefix(); }
  void start();
  /// What is enqueued between these two calls on the rank's thread is to end within the timeout,
  /// from when the stream comes to it. `first`: nothing has ended between these ranks before.
  void begin(cudaStream_t stream, const CollectivePlace& place, bool first);
  void end(cudaStream_t stream);
  /// The same for a graph that has this collective and may have others.
  void begin_replay(cudaStream_t stream, const CollectivePlace& place);
  void end_replay(cudaStream_t stream);

  /// Throws the failure that ended communication, if one did.
  void check();
  /// The first call counts. Returns when peers are told and aborts have begun. Any thread.
  void fail(const Error& error, bool told = false) noexcept;
  bool failed();
  /// No further failure: communicators are about to be destroyed. Returns when aborts are over.
  void stop() noexcept;

 private:
  struct Item {
    CollectivePlace place;
    int of_graph = 0;  ///< collectives, where it is a replay
    bool first = false;
    cudaEvent_t begin = nullptr, end = nullptr;
    std::optional<Clock::time_point> since = {};
    std::string text() const;
  };
  void drop(std::map<cudaStream_t, Item>::node_type item);
  void run();
  void look(Clock::duration stood_still);
  std::optional<Item> front(cudaStream_t stream);
  void pop(cudaStream_t stream);
  std::optional<Error> late(cudaStream_t stream, const Item& item, Clock::duration stood_still);

  const CommunicatorArguments arguments_;
  Ends ends_;
  EventPool events_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<cudaStream_t, std::deque<Item>> watched_;  // the last one's end may be to come
  std::map<cudaStream_t, Item> open_;
  std::optional<Error> failure_;
  bool aborting_ = false;  // it has begun
  bool ending_ = false;    // no failure counts any more
  StoodStill stood_still_;
  std::unique_ptr<FailureMail> mail_;
  std::thread thread_, aborter_;
};

}  // namespace tessera::nccl

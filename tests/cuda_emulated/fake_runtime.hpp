#pragma once
// What the files of the fake runtime share. Two kinds of threads: the host's, which take turns by
// State::mutex, and one of each stream, which take no lock at all. TSan knows of an order between
// two streams only if an event, a wait of the host or a launch makes it, so it finds a kernel that
// reads before its stream waited. A lock that streams shared would hide that.
#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "cuda_runtime.h"
#include "tessera/types.hpp"

namespace tessera::cuda::emulated {

/// A kernel, copy or host function. Empty, or what went wrong in it.
using Work = std::function<std::string()>;
using Lock = std::unique_lock<std::mutex>;

struct Item {
  Work work;  ///< none: the stream ends
  std::unique_ptr<Item> next;
};

}  // namespace tessera::cuda::emulated

struct CUstream_st {
  using u32 = std::uint32_t;

  CUstream_st(int gpu, std::uint64_t seed);
  void push(tessera::cuda::emulated::Work work);
  /// Has the item of this number ended, and is seen what it did?
  bool reached(u32 item) const { return ended_[item % kRemembered].load() >= item; }
  void wait_for(u32 item) const;
  /// Runs what is queued, and ends the thread.
  void end();

  bool alive = true;
  int gpu;
  u32 enqueued = 0;  ///< the number of the last item
  std::uint64_t capture = 0;
  std::vector<std::size_t> tail;  ///< of a capture: nodes that the next one follows

 private:
  void run(std::uint64_t seed);

  // An item's own word for its end, not a counter of all: whoever waits sees no later item's work.
  static constexpr u32 kRemembered = 1024;
  std::array<std::atomic<u32>, kRemembered> ended_{};
  std::atomic<u32> pushed_{0};
  std::unique_ptr<tessera::cuda::emulated::Item> first_;  ///< of the stream's thread; ran already
  tessera::cuda::emulated::Item* last_;                   ///< of the host
  std::thread thread_;
};

struct CUevent_st {
  CUevent_st(int gpu, bool timing) : timing(timing), gpu(gpu) {}
  bool alive = true, timing;
  int gpu;
  // Where it was recorded last: after an item of a stream, or after nodes of a capture.
  CUstream_st* stream = nullptr;
  std::uint32_t item = 0;
  std::uint64_t capture = 0;
  std::vector<std::size_t> tail;
  std::atomic<std::int64_t> nanoseconds{0};
};

struct CUgraphNode_st {
  tessera::cuda::emulated::Work work;
  std::vector<std::size_t> after;
  std::function<bool()> done = {};  ///< where it has not ended with `work`
};

struct CUgraph_st {
  bool alive = true;
  std::vector<CUgraphNode_st> nodes;
};

struct CUgraphExec_st {
  CUgraphExec_st(std::vector<CUgraphNode_st> nodes, std::uint64_t seed);
  /// Runs all nodes in one of the orders that their edges allow.
  std::string run();

  bool alive = true;
  std::vector<CUgraphNode_st> nodes;
  std::vector<std::vector<std::size_t>> followers;
  std::mt19937_64 random;
  CUstream_st* stream = nullptr;  ///< of the last launch
  std::uint32_t item = 0;
};

namespace tessera::cuda::emulated {

/// What the environment says.
struct Machine {
  Machine();
  std::vector<int> gpus;  ///< of the host, those that the process sees
  int driver, runtime;
  i64 memory, others;
  u64 seed;
  std::string fault;       ///< of the driver
  i64 failing_kernel = 0;  ///< its number; 0: none
};

struct Block {
  bool device;  ///< or page-locked memory of the host
  int gpu;
  std::size_t bytes;
  std::byte* mapped;
  std::size_t mapped_bytes;
};
void unmap(const Block& block);

struct Capture {
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  CUstream_st* origin;
  bool spoiled = false;
  std::vector<CUgraphNode_st> nodes = {};
};

/// Destroyed handles stay, so that their use is an error and no crash.
struct State {
  std::mutex mutex;
  Machine machine;
  std::deque<CUstream_st> streams;
  std::deque<CUevent_st> events;
  std::deque<CUgraph_st> graphs;
  std::deque<CUgraphExec_st> execs;
  std::map<u64, Capture> captures;  ///< under way
  u64 last_capture = 0;
  std::map<std::uintptr_t, Block> blocks;
  i64 mallocs = 0, kernels = 0;

  std::atomic<cudaError_t> failed{cudaSuccess};  ///< the error that stays
  std::string failure;
};
State& state();

/// The state of the calling thread.
struct ThreadState {
  bool is_stream = false;
  int gpu = 0;
  cudaError_t last_error = cudaSuccess;
  cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
};
inline thread_local ThreadState this_thread;

/// The capability of all GPUs, 10 · major + minor. It is read whenever it is asked for, so that a
/// test has GPUs of several.
int capability();
/// The most that a block may have, in bytes.
int most_shared_memory();

/// cudaErrorNoDevice and the like: why nothing can be called.
cudaError_t unusable();

/// A function of the API: what it does, unless an error forbids all calls.
template <class F>
cudaError_t call(F&& body) {
  if (this_thread.is_stream) return cudaErrorNotPermitted;  // a host function
  Lock lock(state().mutex);
  cudaError_t result = unusable();
  if (result == cudaSuccess) result = body(lock);
  if (result != cudaSuccess) this_thread.last_error = result;
  return result;
}

template <class Handle>
bool alive(Handle handle) {
  return handle != nullptr && handle->alive;
}

/// Lets other threads of the host go on until the item has ended; the error that stays, if any.
cudaError_t wait(Lock& lock, const CUstream_st& stream, std::uint32_t item);
/// For all that is enqueued on a GPU's streams.
cudaError_t wait_for_gpu(Lock& lock, int gpu);

/// Enqueues or records.
cudaError_t enqueue(cudaStream_t stream, Work work);
/// How long to wait before work that waits is asked again.
void wait_a_moment();

/// Where the calling thread may not wait or ask, since a capture is under way: the error, and that
/// capture is spoiled.
cudaError_t refuse_in_capture();
/// The same for a call about a captured stream.
cudaError_t spoil(u64 capture, cudaError_t why);

}  // namespace tessera::cuda::emulated

// Streams: a thread each, and its queue.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <climits>

#include "emulated_gpu.hpp"
#include "fake_runtime.hpp"

namespace tessera::cuda::emulated {
namespace {

// Not std::atomic::wait: the words in which the library counts who waits would tell TSan of an
// order between streams.
void sleep_while(const std::atomic<u32>& word, u32 value) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
void wake_all(const std::atomic<u32>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}
void wait_until_least(const std::atomic<u32>& word, u32 value) {
  for (u32 now; (now = word.load()) < value;) sleep_while(word, now);
}

/// Mostly none, so that streams overtake each other at some places, which the seed decides.
void delay(std::mt19937_64& random) {
  const u64 drawn = random();
  if (drawn % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(drawn / 16 % 200));
}

void fail(std::string text) {
  const Lock lock(state().mutex);
  if (state().failed != cudaSuccess) return;
  state().failure = std::move(text);
  state().failed = cudaErrorLaunchFailure;
}

}  // namespace

cudaError_t wait(Lock& lock, const CUstream_st& stream, u32 item) {
  lock.unlock();
  stream.wait_for(item);
  lock.lock();
  return state().failed;
}

cudaError_t wait_for_gpu(Lock& lock, int gpu) {
  std::vector<std::pair<const CUstream_st*, u32>> ends;
  for (const CUstream_st& stream : state().streams) {
    if (stream.alive && stream.gpu == gpu) ends.emplace_back(&stream, stream.enqueued);
  }
  for (const auto& [stream, item] : ends) wait(lock, *stream, item);
  return state().failed;
}

cudaError_t enqueue_kernel(cudaStream_t stream, std::function<std::string()> work) {
  return call([&](Lock&) {
    if (alive(stream) && stream->gpu != this_thread.gpu) return cudaErrorInvalidResourceHandle;
    if (++state().kernels == state().machine.failing_kernel) {
      work = [] { return std::string("an illegal memory access was encountered"); };
    }
    return enqueue(stream, std::move(work));
  });
}

cudaError_t launch(cudaStream_t stream, const Grid& grid, std::function<void()> thread) {
  constexpr i64 kLanes = 32, kMostThreads = 1024, kMostRows = 65535, kMostBlocks = 2147483647;
  if (grid.threads % kLanes != 0 || grid.threads <= 0 || grid.threads > kMostThreads ||
      grid.rows <= 0 || grid.rows > kMostRows || grid.blocks <= 0 || grid.blocks > kMostBlocks ||
      grid.shared_bytes < 0 || grid.shared_bytes > most_shared_memory()) {
    return call([](Lock&) { return cudaErrorInvalidConfiguration; });
  }
  return enqueue_kernel(stream,
                        [grid, thread = std::move(thread)] { return run_grid(grid, thread); });
}

}  // namespace tessera::cuda::emulated

using namespace tessera::cuda::emulated;

CUstream_st::CUstream_st(int gpu, std::uint64_t seed)
    : gpu(gpu),
      first_(std::make_unique<Item>()),
      last_(first_.get()),
      thread_([=, this] { run(seed); }) {}

void CUstream_st::push(Work work) {
  last_->next = std::make_unique<Item>(Item{std::move(work), nullptr});
  last_ = last_->next.get();
  pushed_.store(++enqueued);
  wake_all(pushed_);
}

void CUstream_st::wait_for(u32 item) const { wait_until_least(ended_[item % kRemembered], item); }

void CUstream_st::end() {
  push(nullptr);
  thread_.join();
}

void CUstream_st::run(std::uint64_t seed) {
  this_thread.is_stream = true;
  std::mt19937_64 random(seed);
  for (u32 number = 1;; ++number) {
    wait_until_least(pushed_, number);
    first_ = std::move(first_->next);
    if (!first_->work) return;
    if (state().failed == cudaSuccess) {
      if (seed != 0) delay(random);
      if (std::string wrong = first_->work(); !wrong.empty()) fail(std::move(wrong));
    }
    first_->work = nullptr;
    std::atomic<u32>& ended = ended_[number % kRemembered];
    ended.store(number);
    wake_all(ended);
  }
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return call([&](Lock&) {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int /*priority*/) {
  return call([&](Lock&) {
    if (flags > cudaStreamNonBlocking) return cudaErrorInvalidValue;
    auto& streams = state().streams;
    const auto seed = state().machine.seed;
    *stream = &streams.emplace_back(this_thread.gpu, seed == 0 ? 0 : seed * 4096 + streams.size());
    return cudaSuccess;
  });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call([&](Lock& lock) {
    if (!alive(stream)) return cudaErrorInvalidResourceHandle;
    if (stream->capture != 0) return spoil(stream->capture, cudaErrorStreamCaptureUnsupported);
    stream->alive = false;
    lock.unlock();
    stream->end();
    lock.lock();
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return call([&](Lock& lock) {
    if (!alive(stream)) return cudaErrorInvalidResourceHandle;
    if (stream->capture != 0) return spoil(stream->capture, cudaErrorStreamCaptureUnsupported);
    const cudaError_t refused = refuse_in_capture();
    return refused != cudaSuccess ? refused : wait(lock, *stream, stream->enqueued);
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return call([&](Lock&) {
    if (!alive(stream)) return cudaErrorInvalidResourceHandle;
    if (stream->capture != 0) return spoil(stream->capture, cudaErrorStreamCaptureUnsupported);
    const cudaError_t refused = refuse_in_capture();
    if (refused != cudaSuccess) return refused;
    return stream->reached(stream->enqueued) ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return call([&](Lock& lock) {
    for (auto& [id, capture] : state().captures) spoil(id, cudaErrorStreamCaptureUnsupported);
    if (!state().captures.empty()) return cudaErrorStreamCaptureUnsupported;
    return wait_for_gpu(lock, this_thread.gpu);
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return call([&](Lock&) {
    if (function == nullptr) return cudaErrorInvalidValue;
    return enqueue(stream, [function, data] {
      function(data);
      return std::string();
    });
  });
}

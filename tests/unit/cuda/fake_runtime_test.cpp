// The runtime that stands in for CUDA's: streams, events, memory, errors. Captures have a file of
// their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <set>
#include <thread>

#include "cuda_runtime.h"
#include "tests/common/environment.hpp"

namespace tessera {
namespace fake_runtime_test {

using cuda::emulated::usage;

class FakeRuntime : public ::testing::Test {
 protected:
  void SetUp() override { cuda::emulated::reset(); }
  void TearDown() override { cuda::emulated::reset(); }
};

cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), cudaSuccess);
  return stream;
}
cudaEvent_t make_event(unsigned flags = cudaEventDisableTiming) {
  cudaEvent_t event = nullptr;
  EXPECT_EQ(cudaEventCreateWithFlags(&event, flags), cudaSuccess);
  return event;
}
template <class T>
T* gpu_memory(std::size_t count) {
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, count * sizeof(T)), cudaSuccess);
  return static_cast<T*>(memory);
}
template <class T>
T* locked_memory(std::size_t count) {
  void* memory = nullptr;
  EXPECT_EQ(cudaHostAlloc(&memory, count * sizeof(T), cudaHostAllocDefault), cudaSuccess);
  return static_cast<T*>(memory);
}
template <class F>
cudaError_t kernel(cudaStream_t stream, F work) {
  return cuda::emulated::enqueue_kernel(stream, [work] {
    work();
    return std::string();
  });
}
void nap() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

TEST_F(FakeRuntime, AStreamRunsItsWorkInOrder) {
  cudaStream_t stream = make_stream();
  std::vector<int> order;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(kernel(stream, [&order, i] { order.push_back(i); }), cudaSuccess);
  }
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  ASSERT_EQ(order.size(), 1000U);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
}

TEST_F(FakeRuntime, StreamsOvertakeEachOtherInAnOrderThatTheSeedDecides) {
  // How many of its launches each stream had done when the other did a launch: no two streams wait.
  std::set<std::vector<int>> orders;
  for (const char* seed : {"1", "2", "3", "4", "5"}) {
    const testing::EnvironmentVariable guard("TESSERA_EMULATED_SEED", seed);
    cuda::emulated::reset();
    const cudaStream_t streams[] = {make_stream(), make_stream()};
    std::atomic<int> next{0};
    std::vector<int> order(200);
    for (int i = 0; i < 100; ++i) {
      for (int s = 0; s < 2; ++s) {
        ASSERT_EQ(kernel(streams[s], [&, s] { order[static_cast<std::size_t>(next++)] = s; }),
                  cudaSuccess);
      }
    }
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    orders.insert(order);
  }
  EXPECT_GT(orders.size(), 1U);
}

TEST_F(FakeRuntime, AnEventOrdersStreams) {
  cudaStream_t first = make_stream(), second = make_stream();
  cudaEvent_t event = make_event();
  int value = 0, seen = 0;
  for (int i = 1; i <= 50; ++i) {
    kernel(first, [&value, i] {
      if (i % 10 == 0) nap();
      value = i;
    });
    ASSERT_EQ(cudaEventRecord(event, first), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(second, event), cudaSuccess);
    kernel(second, [&] { seen += value; });
    ASSERT_EQ(cudaEventRecord(event, second), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(first, event), cudaSuccess);
  }
  ASSERT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(seen, 50 * 51 / 2);
}

TEST_F(FakeRuntime, AnEventIsItsLastRecord) {
  cudaStream_t stream = make_stream();
  cudaEvent_t event = make_event();
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess) << "never recorded";
  std::atomic<bool> go{false};
  kernel(stream, [&] {
    while (!go) nap();
  });
  ASSERT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  go = true;
  ASSERT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
}

TEST_F(FakeRuntime, ElapsedTimeIsBetweenEventsThatKeepTime) {
  cudaStream_t stream = make_stream();
  cudaEvent_t begin = make_event(cudaEventDefault), end = make_event(cudaEventDefault);
  cudaEvent_t timeless = make_event();
  float milliseconds = 0;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaErrorInvalidResourceHandle);
  ASSERT_EQ(cudaEventRecord(begin, stream), cudaSuccess);
  std::atomic<bool> go{false};
  kernel(stream, [&] {
    do {
      nap();
    } while (!go);
  });
  ASSERT_EQ(cudaEventRecord(end, stream), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(timeless, stream), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaErrorNotReady);
  go = true;
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  ASSERT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaSuccess);
  EXPECT_GE(milliseconds, 20);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, timeless), cudaErrorInvalidResourceHandle);
}

TEST_F(FakeRuntime, MemoryIsAlignedAndBeginsAsNaN) {
  for (const std::size_t count : {1, 100, 1000, 100000}) {
    const float* memory = gpu_memory<float>(count);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 256, 0U);
    EXPECT_TRUE(std::isnan(memory[0]) && std::isnan(memory[count - 1]));
  }
}

TEST_F(FakeRuntime, MemoryEndsWhereItsEndIs) {
  auto* memory = gpu_memory<char>(1000);
  EXPECT_DEATH(const_cast<volatile char*>(memory)[1024] = 1, "");  // the next multiple of 256
}

TEST_F(FakeRuntime, MemoryIsBounded) {
  const testing::EnvironmentVariable bytes("TESSERA_EMULATED_MEMORY", "1048576");
  const testing::EnvironmentVariable others("TESSERA_EMULATED_OTHERS", "1024");
  cuda::emulated::reset();
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 1 << 20), cudaErrorMemoryAllocation);
  EXPECT_EQ(memory, nullptr);
  ASSERT_EQ(cudaMalloc(&memory, 1 << 19), cudaSuccess);
  std::size_t free = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(total, 1U << 20);
  EXPECT_EQ(free, (1U << 19) - 1024);
  EXPECT_EQ(usage().device_bytes, 1 << 19);
  EXPECT_EQ(usage().device_blocks, 1);
  EXPECT_EQ(usage().mallocs, 2);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaErrorInvalidValue) << "freed twice";
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  EXPECT_EQ(usage().device_bytes, 0);
}

TEST_F(FakeRuntime, FreeWaitsForTheGpu) {
  cudaStream_t stream = make_stream();
  int* memory = gpu_memory<int>(1);
  bool ended = false;
  kernel(stream, [&, memory] {
    nap();
    *memory = 1;
    ended = true;
  });
  ASSERT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_TRUE(ended);
}

TEST_F(FakeRuntime, CopiesAndFillsInStreamOrder) {
  cudaStream_t stream = make_stream();
  int* host = locked_memory<int>(12);
  int* gpu = gpu_memory<int>(12);
  for (int i = 0; i < 12; ++i) host[i] = i;
  const auto bytes = 12 * sizeof(int);
  ASSERT_EQ(cudaMemcpyAsync(gpu, host, bytes, cudaMemcpyHostToDevice, stream), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(host, 0, bytes, stream), cudaSuccess);
  // Two columns of each row of four.
  const auto row = 4 * sizeof(int), two = 2 * sizeof(int);
  ASSERT_EQ(cudaMemcpy2DAsync(host, two, gpu + 1, row, two, 3, cudaMemcpyDeviceToHost, stream),
            cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_THAT(std::vector<int>(host, host + 8), ::testing::ElementsAre(1, 2, 5, 6, 9, 10, 0, 0));
}

TEST_F(FakeRuntime, CopiesAreOfTheKindThatIsSaid) {
  cudaStream_t stream = make_stream();
  char* host = locked_memory<char>(64);
  char* gpu = gpu_memory<char>(64);
  const auto copy = [&](void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    return cudaMemcpyAsync(to, from, bytes, kind, stream);
  };
  EXPECT_EQ(copy(gpu, host, 64, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(copy(gpu, host, 65, cudaMemcpyHostToDevice), cudaErrorInvalidValue) << "beyond its end";
  EXPECT_EQ(copy(gpu, host, 0, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(copy(gpu, host, 64, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(cudaMemcpy2DAsync(gpu, 3, host, 4, 4, 2, cudaMemcpyHostToDevice, stream),
            cudaErrorInvalidPitchValue);
  const std::size_t most = 0x7fffffff;
  EXPECT_EQ(cudaMemcpy2DAsync(gpu, most + 1, host, 4, 4, 1, cudaMemcpyHostToDevice, stream),
            cudaErrorInvalidPitchValue);
  EXPECT_EQ(cudaMemsetAsync(&stream, 0, 8, stream), cudaErrorInvalidValue);
}

TEST_F(FakeRuntime, PageableMemoryIsCopiedBeforeTheCallReturns) {
  cudaStream_t stream = make_stream();
  int* gpu = gpu_memory<int>(1);
  kernel(stream, nap);
  int value = 5, read = 0;
  cudaMemcpyAsync(gpu, &value, sizeof value, cudaMemcpyHostToDevice, stream);
  value = 6;
  cudaMemcpyAsync(&read, gpu, sizeof read, cudaMemcpyDeviceToHost, stream);
  EXPECT_EQ(read, 5);
}

TEST_F(FakeRuntime, HostFunctionsMayNotCall) {
  cudaStream_t stream = make_stream();
  cudaError_t result = cudaSuccess;
  cudaLaunchHostFunc(
      stream, [](void* data) { *static_cast<cudaError_t*>(data) = cudaFree(nullptr); }, &result);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(result, cudaErrorNotPermitted);
}

TEST_F(FakeRuntime, AnErrorOfAKernelStays) {
  cudaStream_t stream = make_stream();
  int* gpu = gpu_memory<int>(1);
  bool ran = false;
  cuda::emulated::enqueue_kernel(stream, [] { return std::string("block (3, 0): stuck"); });
  kernel(stream, [&] { ran = true; });
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorLaunchFailure);
  EXPECT_FALSE(ran) << "what is queued is dropped";
  EXPECT_STREQ(cudaGetErrorName(cudaErrorLaunchFailure), "cudaErrorLaunchFailure");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorLaunchFailure), "block (3, 0): stuck");
  EXPECT_EQ(cudaFree(gpu), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
  cuda::emulated::reset();
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_STREQ(cudaGetErrorString(cudaErrorLaunchFailure), "unspecified launch failure");
}

TEST_F(FakeRuntime, DestroyedAndMissingHandlesAreErrors) {
  cudaStream_t stream = make_stream();
  cudaEvent_t event = make_event();
  EXPECT_EQ(usage().streams, 1);
  EXPECT_EQ(usage().events, 1);
  bool ran = false;
  kernel(stream, [&] { ran = true; });
  ASSERT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_TRUE(ran) << "what was queued runs";
  ASSERT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(usage().streams, 0);
  EXPECT_EQ(usage().events, 0);
  for (const cudaStream_t none : {stream, cudaStream_t{}}) {
    EXPECT_EQ(kernel(none, [] {}), cudaErrorInvalidResourceHandle);
    EXPECT_EQ(cudaStreamSynchronize(none), cudaErrorInvalidResourceHandle);
  }
  EXPECT_EQ(cudaEventQuery(event), cudaErrorInvalidResourceHandle);
}

TEST_F(FakeRuntime, TheEnvironmentSaysTheMachine) {
  const testing::EnvironmentVariable gpus("TESSERA_EMULATED_GPUS", "4");
  const testing::EnvironmentVariable chosen("CUDA_VISIBLE_DEVICES", "3,1,9,0");
  const testing::EnvironmentVariable capability("TESSERA_EMULATED_CAPABILITY", "80");
  cuda::emulated::reset();
  int count = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 2) << "up to the first that is none";
  cudaDeviceProp gpu[2];
  ASSERT_EQ(cudaGetDeviceProperties(&gpu[0], 0), cudaSuccess);
  ASSERT_EQ(cudaGetDeviceProperties(&gpu[1], 1), cudaSuccess);
  EXPECT_EQ(gpu[0].major * 10 + gpu[0].minor, 80);
  EXPECT_NE(std::memcmp(&gpu[0].uuid, &gpu[1].uuid, sizeof(cudaUUID_t)), 0);
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
  // A thread's GPU is its own, and where its kernels may be launched.
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  cudaStream_t stream = make_stream();
  EXPECT_EQ(kernel(stream, [] {}), cudaSuccess);
  std::thread([&] {
    EXPECT_EQ(kernel(stream, [] {}), cudaErrorInvalidResourceHandle);
    EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
    EXPECT_EQ(kernel(stream, [] {}), cudaSuccess);
  }).join();
}

TEST_F(FakeRuntime, AnOldDriverOrNoGpuLeavesNothingToCall) {
  int version = 0, count = -1;
  void* memory = nullptr;
  {
    const testing::EnvironmentVariable driver("TESSERA_EMULATED_DRIVER", "12040");
    cuda::emulated::reset();
    EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
    EXPECT_EQ(cudaMalloc(&memory, 1), cudaErrorInsufficientDriver);
    EXPECT_EQ(cudaDriverGetVersion(&version), cudaSuccess);
    EXPECT_EQ(version, 12040);
    EXPECT_EQ(cudaRuntimeGetVersion(&version), cudaSuccess);
    EXPECT_EQ(version, 13000);
  }
  const testing::EnvironmentVariable gpus("TESSERA_EMULATED_GPUS", "0");
  cuda::emulated::reset();
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
  EXPECT_EQ(count, 0);
}

}  // namespace fake_runtime_test
}  // namespace tessera

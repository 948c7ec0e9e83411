// The emulator of GPUs: what kernels see of it, and the mistakes that it finds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <thread>

#include "emulated_gpu.hpp"
#include "tests/common/environment.hpp"

namespace tessera {
namespace emulator_test {

using cuda::emulated::Grid;
using cuda::emulated::run_grid;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr unsigned kAll = 0xffffffffU;

template <class T>
T* shared(std::size_t count) {
  return static_cast<T*>(cuda::emulated::shared_memory(count * sizeof(T)));
}
constexpr i64 floats(i64 count) { return count * static_cast<i64>(sizeof(float)); }

/// Runs on a thread of its own, which draws all orders from one sequence.
template <class F>
void with_seed(int seed, const F& run) {
  const testing::EnvironmentVariable guard("TESSERA_EMULATED_SEED", std::to_string(seed));
  std::thread(run).join();
}

/// What a kernel leaves in 20 orders of its threads.
template <class F>
std::vector<std::string> in_twenty_orders(const F& run) {
  std::vector<std::string> results;
  with_seed(1, [&] {
    for (int i = 0; i < 20; ++i) results.push_back(run());
  });
  return results;
}

/// The sum of 256 numbers, one a thread, in a block's shared memory.
__global__ void sum(const float* in, float* out, bool with_barrier) {
  auto* values = shared<float>(256);
  const unsigned i = threadIdx.x;
  values[i] = in[i];
  for (unsigned distance = 128; distance > 0; distance /= 2) {
    if (with_barrier || distance != 32) __syncthreads();
    if (i < distance) values[i] += values[i + distance];
  }
  if (i == 0) *out = values[0];
}

std::string run_sum(bool with_barrier) {
  std::vector<float> in(256);
  std::iota(in.begin(), in.end(), 1.0F);
  float out = 0;
  const Grid grid{.threads = 256, .shared_bytes = floats(256)};
  const std::string wrong = run_grid(grid, [&] { sum(in.data(), &out, with_barrier); });
  return !wrong.empty() ? wrong : out == 32896 ? "" : "wrong sum";
}

TEST(Emulator, BarriersOrderABlock) {
  EXPECT_THAT(in_twenty_orders([] { return run_sum(true); }), ::testing::Each(IsEmpty()));
}

TEST(Emulator, AMissingBarrierIsFoundInMostOrders) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "it is a data race";
#endif
  const auto results = in_twenty_orders([] { return run_sum(false); });
  EXPECT_GT(std::count(results.begin(), results.end(), "wrong sum"), 10);
}

TEST(Emulator, IndicesAreThoseOfTheGrid) {
  std::vector<int> runs(5 * 3 * 64);
  std::vector<unsigned> blocks;
  ASSERT_EQ(run_grid({.blocks = 5, .rows = 3, .threads = 64},
                     [&] {
                       EXPECT_EQ(gridDim.x * 10 + gridDim.y, 53U);
                       EXPECT_EQ(blockDim.x, 64U);
                       const unsigned block = blockIdx.y * 5 + blockIdx.x;
                       ++runs.at(block * 64 + threadIdx.x);
                       if (threadIdx.x == 0) blocks.push_back(block);
                     }),
            "");
  EXPECT_THAT(runs, ::testing::Each(1));
  EXPECT_FALSE(std::is_sorted(blocks.begin(), blocks.end())) << "blocks run in any order";
}

TEST(Emulator, TheSeedDecidesTheOrder) {
  const auto order = [](int seed) {
    std::vector<unsigned> order(std::size_t{4} * 64);
    with_seed(seed, [&] {
      std::atomic<std::size_t> next{0};
      run_grid({.blocks = 4, .threads = 64},
               [&] { order[next++] = blockIdx.x * 64 + threadIdx.x; });
    });
    return order;
  };
  EXPECT_EQ(order(3), order(3));
  EXPECT_NE(order(3), order(4));
}

TEST(Emulator, ShufflesAndVotesAreThoseOfAWarp) {
  std::vector<int> checked(64);
  ASSERT_EQ(run_grid({.threads = 64},
                     [&] {
                       const int lane = static_cast<int>(threadIdx.x % 32);
                       const int mine = static_cast<int>(threadIdx.x) * 3;
                       const int base = mine - lane * 3;
                       EXPECT_EQ(__shfl_sync(kAll, mine, 5), base + 15);
                       EXPECT_EQ(__shfl_xor_sync(kAll, mine, 16), base + (lane ^ 16) * 3);
                       EXPECT_EQ(__shfl_up_sync(kAll, mine, 2), lane < 2 ? mine : mine - 6);
                       EXPECT_EQ(__shfl_down_sync(kAll, mine, 2), lane > 29 ? mine : mine + 6);
                       const int half = lane / 2;
                       EXPECT_EQ(__shfl_sync(kAll, 0.5 * lane, half), 0.5 * half);
                       EXPECT_EQ(__ballot_sync(kAll, lane % 4 == 1), 0x22222222U);
                       EXPECT_TRUE(__any_sync(kAll, lane == 31));
                       EXPECT_FALSE(__any_sync(kAll, lane == 32));
                       EXPECT_TRUE(__all_sync(kAll, lane < 32));
                       EXPECT_FALSE(__all_sync(kAll, lane != 7));
                       __syncwarp();
                       ++checked[threadIdx.x];
                     }),
            "");
  EXPECT_THAT(checked, ::testing::Each(1));
}

TEST(Emulator, SharedMemoryBeginsAsNaNInEachBlock) {
  std::vector<int> numbers(32);
  ASSERT_EQ(run_grid({.blocks = 3, .threads = 32, .shared_bytes = floats(32)},
                     [&] {
                       auto& value = shared<float>(32)[threadIdx.x];
                       numbers[threadIdx.x] += !std::isnan(value);
                       value = 1;
                     }),
            "");
  EXPECT_THAT(numbers, ::testing::Each(0));
}

TEST(Emulator, ABarrierThatNotAllReachIsAnError) {
  const std::string wrong = run_grid({.threads = 64}, [] {
    if (threadIdx.x != 40) __syncthreads();
  });
  EXPECT_THAT(wrong,
              HasSubstr("block (0, 0): thread 0 waits at __syncthreads, thread 40 has ended"));
}

TEST(Emulator, AShuffleThatNotAllLanesReachIsAnError) {
  const std::string divergent = run_grid({.threads = 32}, [] {
    if (threadIdx.x < 16) __shfl_sync(kAll, 1, 0);
  });
  EXPECT_THAT(divergent, HasSubstr("not all threads reach"));
  const std::string mask = run_grid({.threads = 32}, [] { __shfl_sync(0xffffU, 1, 0); });
  EXPECT_THAT(mask, HasSubstr("not all lanes"));
}

TEST(Emulator, ABlockRunsAfterOneThatWasStuck) {
  EXPECT_NE(run_grid({.threads = 32},
                     [] {
                       if (threadIdx.x == 0) __syncthreads();
                     }),
            "");
  EXPECT_EQ(run_sum(true), "");
}

TEST(Emulator, TooLittleSharedMemoryIsAnError) {
  const std::string wrong =
      run_grid({.threads = 32, .shared_bytes = floats(31)}, [] { shared<float>(32)[0] = 1; });
  EXPECT_THAT(wrong, HasSubstr("uses 128 bytes of shared memory, and was launched with 124"));
}

TEST(Emulator, LaunchesRefuseWhatNoGpuRuns) {
  cuda::emulated::reset();
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), cudaSuccess);
  const auto launch = [&](Grid grid) { return cuda::emulated::launch(stream, grid, [] {}); };
  EXPECT_EQ(launch({}), cudaSuccess);
  for (const Grid& wrong : {Grid{.threads = 33},
                            Grid{.threads = 1056},
                            Grid{.threads = 0},
                            Grid{.blocks = 0},
                            Grid{.blocks = i64{1} << 31},
                            Grid{.rows = 65536},
                            Grid{.shared_bytes = 228 * 1024}}) {
    EXPECT_EQ(launch(wrong), cudaErrorInvalidConfiguration);
  }
  cuda::emulated::reset();
}

TEST(Emulator, SharedMemoryFollowsTheCapability) {
  for (const auto& [capability, kibibytes] : {std::pair("80", 163),
                                              std::pair("86", 99),
                                              std::pair("87", 163),
                                              std::pair("89", 99),
                                              std::pair("90", 227),
                                              std::pair("103", 227),
                                              std::pair("120", 99)}) {
    const testing::EnvironmentVariable guard("TESSERA_EMULATED_CAPABILITY", capability);
    cuda::emulated::reset();
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), cudaSuccess);
    const i64 most = kibibytes * 1024;
    EXPECT_EQ(cuda::emulated::launch(stream, {.shared_bytes = most}, [] {}), cudaSuccess);
    EXPECT_EQ(cuda::emulated::launch(stream, {.shared_bytes = most + 1}, [] {}),
              cudaErrorInvalidConfiguration)
        << capability;
    int has = 0;
    ASSERT_EQ(cudaDeviceGetAttribute(&has, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0),
              cudaSuccess);
    EXPECT_EQ(has, most);
  }
  cuda::emulated::reset();
}

TEST(Emulator, AKernelsErrorIsItsStreams) {
  cuda::emulated::reset();
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), cudaSuccess);
  ASSERT_EQ(cuda::emulated::launch(stream,
                                   {.blocks = 2},
                                   [] {
                                     if (threadIdx.x == 3) __syncthreads();
                                   }),
            cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorLaunchFailure);
  EXPECT_THAT(cudaGetErrorString(cudaErrorLaunchFailure), HasSubstr("not all threads reach"));
  cuda::emulated::reset();
}

}  // namespace emulator_test
}  // namespace tessera

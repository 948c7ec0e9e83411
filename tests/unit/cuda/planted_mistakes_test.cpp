// Mistakes that kernels have, planted into small ones: each is found by the emulator's errors, or
// by results that are wrong, or differ, in some of twenty orders. Without it each is right in all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "planted_mistakes.hpp"
#include "tests/common/environment.hpp"

namespace tessera {
namespace planted_mistakes_test {

using cuda::emulated::Grid;
using cuda::emulated::run_grid;
namespace planted = planted_mistakes;
using planted::kThreads;
using Values = std::vector<float>;

constexpr int kOrders = 20;

/// Small integers: sums are exact in any order.
Values numbers(int count) {
  Values values;
  for (int i = 0; i < count; ++i) values.push_back(static_cast<float>(i * 29 % 31 + 1));
  return values;
}

/// What a kernel leaves: its error, or its numbers.
struct Outcome {
  std::string error;
  Values values;
  bool operator==(const Outcome&) const = default;
};

/// Runs it with `out` of so many numbers, and room after them.
template <class F>
Outcome outcome(const Grid& grid, int count, F kernel) {
  constexpr int kRoom = 128;
  Values out(static_cast<std::size_t>(count + kRoom), -7);
  Outcome result{run_grid(grid, [&] { kernel(out.data()); }), {}};
  const auto end = out.begin() + count;
  if (std::any_of(end, out.end(), [](float value) { return value != -7; })) {
    result.error += "writes after its end";
  }
  result.values.assign(out.begin(), end);
  return result;
}

Grid block(i64 shared_bytes = sizeof(planted::Line), i64 blocks = 1) {
  return {.blocks = blocks, .threads = kThreads, .shared_bytes = shared_bytes};
}

/// A kernel with and without its mistake.
struct Case {
  std::string name;
  std::function<Outcome(bool planted)> run;
  Values expected;
  std::string error = {};  ///< of the mistake; none: wrong or different values
  int found = kOrders;     ///< in at least so many orders
  bool race = false;       ///< under TSan it is an error of its own
};

/// f(std::bool_constant) with the mistake or without.
template <class F>
auto choose(bool with, F f) {
  return with ? f(std::true_type{}) : f(std::false_type{});
}

std::vector<Case> cases_of_blocks() {
  std::vector<Case> cases;
  const Values in = numbers(256);
  const auto sum = [&](int first, int end) {
    float total = 0;
    for (int i = first; i < end; ++i) total += in[static_cast<std::size_t>(i)];
    return total;
  };
  cases.push_back({"a missing barrier",
                   [in](bool with) {
                     return outcome(block(), 1, [&](float* out) {
                       choose(with, [&](auto is) { planted::sum_block<is>(in.data(), out); });
                     });
                   },
                   {sum(0, 128)},
                   "",
                   kOrders / 2,
                   true});
  Values reversed;
  for (std::size_t i = 0; i < kThreads; ++i) reversed.push_back(in[i ^ 31]);
  cases.push_back({"a missing __syncwarp",
                   [in](bool with) {
                     return outcome(block(), kThreads, [&](float* out) {
                       choose(with, [&](auto is) { planted::reverse_warps<is>(in.data(), out); });
                     });
                   },
                   reversed,
                   "",
                   kOrders,
                   true});
  cases.push_back({"a tile that is overwritten while others read it",
                   [in](bool with) {
                     return outcome(block(), kThreads, [&](float* out) {
                       choose(with, [&](auto is) { planted::sum_tiles<is>(in.data(), out, 4); });
                     });
                   },
                   Values(kThreads, sum(0, 256)),
                   "",
                   kOrders / 2,
                   true});
  Values more;
  for (std::size_t i = 0; i < kThreads; ++i) more.push_back(in[i] + 1);
  cases.push_back({"a read before the wait for its group of copies",
                   [in](bool with) {
                     return outcome(block(), kThreads, [&](float* out) {
                       choose(with, [&](auto is) { planted::add_one<is>(in.data(), out); });
                     });
                   },
                   more,
                   "",
                   kOrders,
                   true});
  cases.push_back({"a shuffle that not all lanes reach",
                   [in](bool with) {
                     return outcome(block(), 4, [&](float* out) {
                       choose(with, [&](auto is) { planted::sum_warps<is>(in.data(), out, 100); });
                     });
                   },
                   {sum(0, 32), sum(32, 64), sum(64, 96), sum(96, 100)},
                   "waits in a shuffle"});
  cases.push_back({"a barrier that not all threads reach",
                   [in](bool with) {
                     return outcome(block(), 1, [&](float* out) {
                       choose(with, [&](auto is) { planted::largest<is>(in.data(), out, 96); });
                     });
                   },
                   {31},
                   "not all threads reach the barrier"});
  cases.push_back({"too little shared memory",
                   [in](bool with) {
                     const i64 bytes = sizeof(planted::Line) - (with ? 64 : 0);
                     return outcome(block(bytes), 1, [&](float* out) {
                       planted::sum_block<false>(in.data(), out);
                     });
                   },
                   {sum(0, 128)},
                   "it uses 512 bytes of shared memory, and was launched with 448"});
  std::vector<int> digits;
  Values counts(8, 0.0F);
  for (int i = 0; i < kThreads; ++i) {
    digits.push_back(i * 5 % 7);
    ++counts[static_cast<std::size_t>(i * 5 % 7)];
  }
  cases.push_back({"shared memory that is not initialised",
                   [digits](bool with) {
                     return outcome(block(), 8, [&](float* out) {
                       choose(with,
                              [&](auto is) { planted::count_digits<is>(digits.data(), out); });
                     });
                   },
                   counts});
  Values few(kThreads, 0.0F);
  for (const std::size_t i : {40, 41, 90, 127}) few[i] = 1;
  cases.push_back({"a race for a word",
                   [few](bool with) {
                     return outcome(block(), 1, [&](float* out) {
                       choose(with, [&](auto is) { planted::first_found<is>(few.data(), out); });
                     });
                   },
                   {40},
                   "",
                   kOrders / 2,
                   true});
  cases.push_back({"a row without an end",
                   [in](bool with) {
                     return outcome(block(0, 2), 200, [&](float* out) {
                       choose(with,
                              [&](auto is) { planted::add_one_to_rows<is>(in.data(), out, 200); });
                     });
                   },
                   [&] {
                     Values values = in;
                     values.resize(200);
                     for (float& value : values) value += 1;
                     return values;
                   }(),
                   "writes after its end"});
  return cases;
}

Case wrong_fragment() {
  std::vector<BFloat16> a, b;
  Values expected(256, 0.0F);
  for (const float value : numbers(256)) a.emplace_back(value), b.emplace_back(32 - value);
  for (std::size_t n = 0; n < 4096; ++n) {
    const std::size_t i = n / 256, j = n / 16 % 16, k = n % 16;
    expected[i * 16 + j] += static_cast<float>(a[i * 16 + k]) * static_cast<float>(b[k * 16 + j]);
  }
  return {"rows and columns of a fragment exchanged",
          [a, b](bool with) {
            return outcome(
                {.threads = 32, .shared_bytes = sizeof(planted::Factors)}, 256, [&](float* out) {
                  choose(with, [&](auto is) { planted::multiply<is>(a.data(), b.data(), out); });
                });
          },
          expected};
}

/// Addresses of 16 GiB, of which only the pages that are touched take memory.
class Wide {
 public:
  static constexpr std::size_t kHalf = (std::size_t{8} << 30) + (std::size_t{1} << 20);
  Wide()
      : memory_(mmap(nullptr,
                     2 * kHalf,
                     PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                     -1,
                     0)) {}
  Wide(const Wide&) = delete;
  Wide& operator=(const Wide&) = delete;
  ~Wide() { munmap(memory_, 2 * kHalf); }
  bool found() const { return memory_ != MAP_FAILED; }
  float* middle() const { return static_cast<float*>(memory_) + kHalf / sizeof(float); }

 private:
  void* memory_;
};

Case narrow_index() {
  constexpr i64 kStride = i64{1} << 30;  // three rows: the index of the last is 2³¹
  return {"an index of 32 bits",
          [](bool with) {
            const Wide wide;
            if (!wide.found()) return Outcome{"no addresses", {}};
            std::fill_n(wide.middle() + 2 * kStride, kThreads, 5.0F);
            return outcome(block(0), kThreads, [&](float* out) {
              choose(with, [&](auto is) { planted::last_row<is>(wide.middle(), 3, kStride, out); });
            });
          },
          Values(kThreads, 5.0F)};
}

/// Its sum has other bits in another order.
Case order_of_blocks() {
  Values in;
  for (int i = 0; i < 64; ++i) in.push_back(1 / static_cast<float>(i + 3));
  return {"a sum in the order in which blocks come",
          [in](bool with) {
            Values parts(64);
            float sum = 0;
            const std::string error = run_grid(block(0, 64), [&] {
              choose(with,
                     [&](auto is) { planted::add_blocks<is>(in.data(), parts.data(), &sum); });
            });
            return Outcome{error, {std::accumulate(parts.begin(), parts.end(), sum)}};
          },
          {std::accumulate(in.begin(), in.end(), 0.0F)},
          "",
          kOrders / 2,
          true};
}

/// Runs on a thread of its own, which draws all orders from one sequence.
std::vector<Outcome> in_twenty_orders(const Case& of, bool with) {
  const testing::EnvironmentVariable seed("TESSERA_EMULATED_SEED", "1");
  std::vector<Outcome> outcomes;
  std::thread([&] {
    for (int i = 0; i < kOrders; ++i) outcomes.push_back(of.run(with));
  }).join();
  return outcomes;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases = cases_of_blocks();
  cases.push_back(wrong_fragment());
  cases.push_back(narrow_index());
  cases.push_back(order_of_blocks());
  return cases;
}

TEST(PlantedMistakes, KernelsWithoutThemAreRightInAllOrders) {
  for (const Case& of : all_cases()) {
    EXPECT_THAT(in_twenty_orders(of, false), ::testing::Each(Outcome{"", of.expected})) << of.name;
  }
}

TEST(PlantedMistakes, AreFound) {
  for (const Case& of : all_cases()) {
#if defined(__SANITIZE_THREAD__)
    if (of.race) continue;  // it names the lines, and ends the program
#endif
    const std::vector<Outcome> outcomes = in_twenty_orders(of, true);
    const auto found = std::count_if(outcomes.begin(), outcomes.end(), [&](const Outcome& each) {
      if (!of.error.empty()) return each.error.find(of.error) != std::string::npos;
      return each.error.empty() && each.values != of.expected;
    });
    EXPECT_GE(found, of.found) << of.name << ": " << outcomes.front().error;
  }
}

/// What a stream reads that should wait for another one, which writes.
Values read_by_another_stream(int seed, bool waits) {
  const testing::EnvironmentVariable guard("TESSERA_EMULATED_SEED", std::to_string(seed));
  cuda::emulated::reset();
  cudaStream_t writer = nullptr, reader = nullptr;
  cudaEvent_t written = nullptr;
  void* memory = nullptr;
  const auto check = [](cudaError_t result) { ASSERT_EQ(result, cudaSuccess); };
  check(cudaStreamCreateWithPriority(&writer, cudaStreamNonBlocking, 0));
  check(cudaStreamCreateWithPriority(&reader, cudaStreamNonBlocking, 0));
  check(cudaEventCreateWithFlags(&written, cudaEventDisableTiming));
  check(cudaMalloc(&memory, 2 * sizeof(planted::Line)));
  auto* from = static_cast<float*>(memory);
  float* to = from + kThreads;
  // A busy host delays either stream: the writer is held, so that it is the later one.
  check(cudaLaunchHostFunc(
      writer, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }, nullptr));
  cuda::launch(planted::fill, {.threads = kThreads}, writer, from, 3.0F);
  check(cudaEventRecord(written, writer));
  if (waits) check(cudaStreamWaitEvent(reader, written));
  cuda::launch(planted::copy, {.threads = kThreads}, reader, from, to);
  check(cudaDeviceSynchronize());
  Values read(to, to + kThreads);
  cuda::emulated::reset();
  return read;
}

TEST(PlantedMistakes, AMissingWaitOfAStreamIsFound) {
  int found = 0;
  for (int seed = 1; seed <= kOrders; ++seed) {
    EXPECT_THAT(read_by_another_stream(seed, true), ::testing::Each(3));
#if !defined(__SANITIZE_THREAD__)
    found += read_by_another_stream(seed, false) != Values(kThreads, 3);
#endif
  }
#if !defined(__SANITIZE_THREAD__)
  EXPECT_GE(found, kOrders / 2);
#endif
}

// An error of a call is told once, and not again by a launch that has no part in it.
TEST(PlantedMistakes, AnErrorThatWasToldIsNotThatOfTheNextLaunch) {
  cuda::emulated::reset();
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), cudaSuccess);
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, sizeof(planted::Line)), cudaSuccess);
  const auto fill = [&] {
    cuda::launch(planted::fill, {.threads = kThreads}, stream, static_cast<float*>(memory), 3.0F);
  };
  const auto fail = [&] { cuda::check(cudaFree(&stream), "cudaFree"); };
  EXPECT_THROW(fail(), Error);
  EXPECT_NO_THROW(fill());
  EXPECT_EQ(cudaFree(&stream), cudaErrorInvalidValue);
  EXPECT_THROW(fill(), Error) << "nobody told this one";
  cuda::emulated::enqueue_kernel(stream, [] { return std::string("stuck"); });
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaErrorLaunchFailure);
  EXPECT_THROW(fail(), Error);
  EXPECT_THROW(fill(), Error) << "it stays";
  cuda::emulated::reset();
}

}  // namespace planted_mistakes_test
}  // namespace tessera

#include <barrier>
#include <cmath>
#include <thread>

#include "sdk/src/shared/arena.hpp"
#include "tensor_support.hpp"

namespace tessera {
namespace deferred_test {

using namespace testing_support;

constexpr u64 kSeeds = 100;

/// How many of the seeds make `program` give a NaN or a wrong number.
template <class F>
int wrong(F program) {
  int count = 0;
  for (u64 seed = 1; seed <= kSeeds; ++seed) {
    TestDevice device(deferred(seed));
    count += !program(device);
  }
  return count;
}

/// y = x on the comm stream, as a collective would be.
void copy_task(Device& device, const Tensor& x, const Tensor& y) {
  device.launch_host(
      device.comm_stream(CommLane::critical), "copy", [from = x.arg(), to = y.arg()] {
        for (i64 i = 0; i < from.elements(); ++i) to.as<float>()[i] = from.as<float>()[i];
      });
}

bool all(const std::vector<float>& values, float expected) {
  return std::all_of(values.begin(), values.end(), [&](float x) { return x == expected; });
}

/// compute fills x, comm copies it to y, compute adds both; with or without its two waits.
bool round_trip(Device& device, bool wait_before, bool wait_after) {
  const Tensor x = empty(device, {16}), y = empty(device, {16}), z = empty(device, {16});
  fill(device.stream(), x, 2);
  device.wait(device.comm_stream(CommLane::critical),
              wait_before ? device.record(device.stream()) : Event());
  copy_task(device, x, y);
  device.wait(device.stream(),
              wait_after ? device.record(device.comm_stream(CommLane::critical)) : Event());
  add(device.stream(), x, y, z);
  const bool right = all(values(device, z), 4);
  device.synchronize(device.comm_stream(CommLane::critical));  // x and y are in use until then
  return right;
}

TEST(Deferred, RunsACorrectProgramRight) {
  EXPECT_EQ(wrong([](Device& device) {
              bool right = true;
              for (int i = 0; i < 5; ++i) right &= round_trip(device, true, true);
              return right;
            }),
            0);
}

TEST(Deferred, FindsAMissingWaitBefore) {
  EXPECT_GT(wrong([](Device& device) { return round_trip(device, false, true); }), kSeeds / 10);
}

TEST(Deferred, FindsAMissingWaitAfter) {
  EXPECT_GT(wrong([](Device& device) { return round_trip(device, true, false); }), kSeeds / 10);
}

TEST(Deferred, InlineStreamsHideTheMissingWait) {
  TestDevice device;
  EXPECT_TRUE(round_trip(device, false, false));
}

TEST(Deferred, FindsMemoryReleasedTooEarly) {
  EXPECT_GT(wrong([](Device& device) {
              const Tensor y = empty(device, {16});
              {
                const Tensor x = empty(device, {16});
                fill(device.stream(), x, 2);
                device.wait(device.comm_stream(CommLane::critical), device.record(device.stream()));
                copy_task(device, x, y);
              }
              device.wait(device.stream(), device.record(device.comm_stream(CommLane::critical)));
              return all(values(device, y), 2);
            }),
            kSeeds / 10);
}

TEST(Deferred, PoisonsFreshMemory) {
  TestDevice device(deferred(1));
  for (const float x : values(device, empty(device, {100}))) ASSERT_TRUE(std::isnan(x));
  Stream& stream = device.stream();
  const auto make = [&](DType dtype) {
    return Tensor::allocate(device, device.pool(), stream, {3}, dtype, Category::activations);
  };
  double numbers[3];
  device.read(make(DType::fp64), numbers);
  EXPECT_TRUE(std::isnan(numbers[0]) && std::isnan(numbers[2]));
  i64 indices[3];
  device.read(make(DType::i64), indices);
  EXPECT_GT(indices[1], i64{1} << 62);
  u8 flags[3];
  device.read(make(DType::boolean), flags);
  EXPECT_GT(flags[0], 1);
}

TEST(Deferred, ReadsOnTheComputeStream) {
  EXPECT_GT(wrong([](Device& device) {
              const Tensor x = empty(device, {4});
              device.wait(device.comm_stream(CommLane::critical), device.record(device.stream()));
              fill(device.comm_stream(CommLane::critical), x, 1);
              const bool right = all(values(device, x), 1);
              device.synchronize(device.comm_stream(CommLane::critical));
              return right && all(values(device, x), 1);
            }),
            kSeeds / 10);
}

TEST(Deferred, WritesAreSeenByLaterWork) {
  EXPECT_EQ(wrong([](Device& device) {
              const Tensor x = empty(device, {4}), y = empty(device, {4});
              const std::vector<float> ones(4, 1), twos(4, 2);
              device.write(x, ones.data());
              add(device.stream(), x, x, y);
              device.write(x, twos.data());
              add(device.stream(), x, y, y);
              return all(values(device, y), 4);
            }),
            0);
}

TEST(Deferred, KeepsTheOrderOfAStream) {
  EXPECT_EQ(wrong([](Device& device) {
              std::vector<int> order, expected;
              for (int i = 0; i < 300; ++i) {
                device.launch_host(
                    device.comm_stream(CommLane::critical), "task", [&, i] { order.push_back(i); });
                expected.push_back(i);
                if (i % 50 == 0) device.synchronize(device.stream());
              }
              device.synchronize(device.comm_stream(CommLane::critical));
              return order == expected;
            }),
            0);
}

TEST(Deferred, RunsAlikeUnderOneSeed) {
  const auto order = [](u64 seed) {
    TestDevice device(deferred(seed));
    std::string text;
    for (int i = 0; i < 40; ++i) {
      device.launch_host(device.stream(), "a", [&] { text += 'a'; });
      device.launch_host(device.comm_stream(CommLane::critical), "b", [&] { text += 'b'; });
    }
    device.synchronize(device.stream());
    device.synchronize(device.comm_stream(CommLane::critical));
    return text;
  };
  EXPECT_EQ(order(1), order(1));
  std::set<std::string> different;
  for (u64 seed = 1; seed <= 20; ++seed) different.insert(order(seed));
  EXPECT_GT(different.size(), 10);
}

TEST(Deferred, BoundsItsQueues) {
  TestDevice device(deferred(1));
  int ran = 0;
  for (int i = 0; i < 20000; ++i) {
    device.launch_host(
        i % 2 ? device.stream() : device.comm_stream(CommLane::critical), "count", [&] { ++ran; });
  }
  EXPECT_GT(ran, 20000 - 5000);
}

TEST(Deferred, ThrowsAtTheNextCallThatWaits) {
  for (u64 seed = 1; seed <= 20; ++seed) {
    TestDevice device(deferred(seed));
    bool later = false;
    const Tensor x = empty(device, {4});
    device.synchronize(device.stream());
    device.launch_host(device.stream(), "task", [] { fail("broken collective"); });
    device.launch_host(device.stream(), "after", [&] { later = true; });
    float host[4];
    EXPECT_ERROR(device.read(x, host), "host task \"task\": broken collective");
    EXPECT_FALSE(later);
    fill(device.stream(), x, 9);
    EXPECT_TRUE(all(values(device, x), 9)) << "usable again";
  }
}

TEST(Deferred, LetsHostTasksWaitForOtherRanks) {
  for (u64 seed = 1; seed <= 20; ++seed) {
    std::barrier barrier(2);
    float sums[2] = {};
    float shared[2] = {};
    const auto rank = [&](int me) {
      TestDevice device(deferred(seed * 2 + static_cast<u64>(me)));
      const Tensor x = empty(device, {1}), y = empty(device, {1});
      for (int step = 0; step < 10; ++step) {
        fill(device.stream(), x, static_cast<float>(step + me));
        device.wait(device.comm_stream(CommLane::critical), device.record(device.stream()));
        device.launch_host(device.comm_stream(CommLane::critical), "all_reduce", [&, me] {
          shared[me] = *x.arg().as<float>();
          barrier.arrive_and_wait();
          *y.arg().as<float>() = shared[0] + shared[1];
          barrier.arrive_and_wait();
        });
        device.wait(device.stream(), device.record(device.comm_stream(CommLane::critical)));
      }
      sums[me] = values(device, y)[0];
    };
    std::thread other(rank, 1);
    rank(0);
    other.join();
    EXPECT_EQ(sums[0], 19);
    EXPECT_EQ(sums[1], 19);
  }
}

/// A graph with a copy on the comm stream, joined before or, wrongly, after its result is read.
bool graph_round_trip(Device& device, bool join_first) {
  Arena arena(device.pool(), 4096, device.stream());
  const Tensor x = empty(device, {16}), z = empty(device, {16});
  fill(device.stream(), x, 0);
  add(device.stream(), x, x, z);
  device.begin_capture(device.stream());
  Tensor y = empty(device, arena, {16});
  device.wait(device.comm_stream(CommLane::critical), device.record(device.stream()));
  copy_task(device, x, y);
  const Event done = device.record(device.comm_stream(CommLane::critical));
  if (join_first) device.wait(device.stream(), done);
  add(device.stream(), x, y, z);
  if (!join_first) device.wait(device.stream(), done);
  y = Tensor();
  const auto graph = device.end_capture(device.stream());
  bool right = true;
  for (int step = 1; step <= 5; ++step) {
    fill(device.stream(), x, static_cast<float>(step));
    device.replay(*graph, device.stream());
    right &= all(values(device, z), static_cast<float>(2 * step));
  }
  return right;
}

TEST(Deferred, RunsACorrectGraphRight) {
  EXPECT_EQ(wrong([](Device& device) { return graph_round_trip(device, true); }), 0);
}

TEST(Deferred, FindsAMissingWaitInAGraph) {
  EXPECT_GT(wrong([](Device& device) { return graph_round_trip(device, false); }), kSeeds / 10);
}

TEST(Deferred, DropsWhatIsQueuedWhenTheDeviceDies) {
  bool ran = false;
  {
    TestDevice device(deferred(3));
    for (int i = 0; i < 100; ++i) fill(device.stream(), empty(device, {4}), 1);
    for (int i = 0; i < 4096; ++i) device.launch_host(device.stream(), "task", [] {});
    device.launch_host(device.stream(), "last", [&] { ran = true; });
  }
  EXPECT_FALSE(ran);
}

TEST(Deferred, RunsWhatIsQueuedBeforeSlabsGoBack) {
  // A source with room for one large slab: the second request needs the first one's memory.
  struct OneSlab : MemorySource {
    void* reserve(i64 bytes) override {
      if (used + bytes > limit) return nullptr;
      used += bytes;
      return std::aligned_alloc(4096, static_cast<std::size_t>(bytes));
    }
    void release(void* address, i64 bytes) override {
      used -= bytes;
      std::free(address);
    }
    i64 used = 0, limit = i64{50} << 20;
  };
  DeviceArguments arguments = deferred(1);
  arguments.memory = std::make_shared<OneSlab>();
  TestDevice device(arguments);
  const i64 elements = i64{9} << 20;
  fill(device.stream(), empty(device, {elements}), 1);
  const Tensor other = Tensor::allocate(device,
                                        device.pool(),
                                        device.comm_stream(CommLane::critical),
                                        {elements},
                                        DType::fp32,
                                        Category::activations);
  EXPECT_EQ(device.memory().reserved, elements * 4);
}

}  // namespace deferred_test
}  // namespace tessera

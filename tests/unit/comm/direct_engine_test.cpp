// What the collectives' results do not show: which way data took, and that memory is handed back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "kernel/comm/store.hpp"
#include "sdk/src/direct_comm/direct_reduce.hpp"
#include "tessera/device/direct_comm.hpp"
#include "tessera/device/host_comm.hpp"
#include "tessera/device/host_device.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace direct_engine_test {

// Peers reach only what was reserved here, as with a segment; counts what is out.
class Island : public DirectMemory {
 public:
  ~Island() override {
    for (const auto& [block, bytes] : blocks_) ::operator delete (block, std::align_val_t{4096});
  }
  void* reserve(i64 bytes) override {
    void* block = ::operator new (static_cast<std::size_t>(bytes), std::align_val_t{4096});
    std::memset(block, 0, static_cast<std::size_t>(bytes));
    blocks_[block] = bytes;
    ++reserved;
    return block;
  }
  void release(void*, i64) override { ++released; }
  u64 token(const void* address, i64 bytes) const override {
    for (const auto& [block, size] : blocks_) {
      const auto* begin = static_cast<const std::byte*>(block);
      const auto* at = static_cast<const std::byte*>(address);
      if (at >= begin && at + bytes <= begin + size) return reinterpret_cast<u64>(address);
    }
    return kPrivate;
  }
  void* at(i64, u64 token, i64) const override {
    return reinterpret_cast<void*>(token);  // NOLINT(performance-no-int-to-ptr)
  }
  std::string death(i64) override { return {}; }

  int reserved = 0, released = 0;

 private:
  std::map<void*, i64> blocks_;
};

CommunicatorArguments arguments_of(i64 rank, Store& store) {
  CommunicatorArguments arguments;
  arguments.rank = rank;
  arguments.world = 2;
  arguments.store = &store;
  arguments.timeout = arguments.init_timeout = std::chrono::seconds(10);
  return arguments;
}

GroupSpec both(i64 rank) {
  return {.name = "two", .members = {0, 1}, .index = static_cast<int>(rank), .id = 0};
}

Collective sum_of(float* values, i64 elements) {
  Collective collective;
  collective.kind = CollectiveKind::all_reduce;
  collective.input = {values, DType::fp32, 1, {elements}, {1}};
  return collective;
}

struct Outcome {
  DirectEngine::Counters counters;
  int reserved = 0;
  std::string error;
};

// `steps` all-reduces of `elements` floats each on two ranks, in memory of the island or not.
Outcome reduce_on_two(i64 elements, bool inside, int steps) {
  InProcessStore store;
  const std::array islands = {std::make_shared<Island>(), std::make_shared<Island>()};
  Outcome outcome;
  const auto rank_body = [&](i64 rank) {
    const auto& island = islands[static_cast<std::size_t>(rank)];
    DirectEngine engine("test", arguments_of(rank, store), island);
    HostDevice device("test", {}, {});
    const auto group = engine.create_group(both(rank), device);
    HostGroup& host = *group->host_group();
    std::vector<float> outside(static_cast<std::size_t>(elements));
    float* values =
        inside ? static_cast<float*>(island->reserve(elements * 4 + 4096)) : outside.data();
    const int before = island->reserved;
    for (int step = 0; step < steps; ++step) {
      std::fill_n(values, elements, static_cast<float>(rank + 1 + step));
      host.finish(host.post(sum_of(values, elements)));
      for (i64 i = 0; i < elements; ++i) {
        require(values[i] == static_cast<float>(3 + 2 * step), "element {} is {}", i, values[i]);
      }
    }
    if (rank == 0) {
      outcome.counters = engine.counters();
      outcome.reserved = island->reserved - before;
    }
  };
  const auto guarded = [&](i64 rank) {
    try {
      rank_body(rank);
    } catch (const std::exception& error) {
      outcome.error = error.what();
    }
  };
  std::thread other(guarded, 1);
  guarded(0);
  other.join();
  return outcome;
}

TEST(DirectEngine, SmallMessagesTravelInTheControlBlock) {
  const Outcome outcome = reduce_on_two(1024, false, 5);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.counters.inlined, 5);
  EXPECT_EQ(outcome.counters.direct + outcome.counters.staged, 0);
}

TEST(DirectEngine, ReadsSharedMemoryInPlace) {
  const Outcome outcome = reduce_on_two(1025, true, 5);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.counters.direct, 5);
  EXPECT_EQ(outcome.counters.inlined + outcome.counters.staged, 0);
}

TEST(DirectEngine, StagesOtherMemoryAndReusesTheCopies) {
  const Outcome outcome = reduce_on_two(5000, false, 5);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.counters.staged, 5);
  EXPECT_EQ(outcome.counters.staged_bytes, 5 * 20000);
  EXPECT_EQ(outcome.counters.direct, 0);
  EXPECT_EQ(outcome.reserved, 1);
}

TEST(DirectEngine, PostingCarriesOutWhatPeersAreReadyFor) {
  InProcessStore store;
  std::barrier<> meeting(2);
  // They live until both ranks have ended: the later one still looks at the other's.
  const std::array islands = {std::make_shared<Island>(), std::make_shared<Island>()};
  const auto rank_body = [&](i64 rank) {
    DirectEngine engine("test", arguments_of(rank, store), islands[static_cast<std::size_t>(rank)]);
    HostDevice device("test", {}, {});
    const auto group = engine.create_group(both(rank), device);
    HostGroup& host = *group->host_group();
    std::vector<float> first(5000, static_cast<float>(rank + 1)), second = first, third = first;
    host.post(sum_of(first.data(), 5000));
    meeting.arrive_and_wait();
    host.post(sum_of(second.data(), 5000));
    meeting.arrive_and_wait();
    const auto last = host.post(sum_of(third.data(), 5000));
    // Nobody has waited for anything yet.
    EXPECT_THAT(first, ::testing::Each(3.0F));
    host.finish(last);
    EXPECT_THAT(second, ::testing::Each(3.0F));
    EXPECT_THAT(third, ::testing::Each(3.0F));
  };
  std::thread other(rank_body, 1);
  rank_body(0);
  other.join();
}

TEST(DirectEngine, AWaitThatSleepsIsWokenByItsPeer) {
  InProcessStore store;
  const std::array islands = {std::make_shared<Island>(), std::make_shared<Island>()};
  std::array<i64, 2> woken{};
  const auto rank_body = [&](i64 rank) {
    DirectEngine engine("test", arguments_of(rank, store), islands[static_cast<std::size_t>(rank)]);
    HostDevice device("test", {}, {});
    const auto group = engine.create_group(both(rank), device);
    HostGroup& host = *group->host_group();
    float value = 1;
    // A sleep lasts 2 ms at most, so that most of these come in the middle of one.
    for (int step = 0; step < 200; ++step) {
      if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      host.finish(host.post(sum_of(&value, 1)));
    }
    woken[static_cast<std::size_t>(rank)] = engine.counters().woken;
  };
  std::thread other(rank_body, 1);
  rank_body(0);
  other.join();
  EXPECT_GT(woken[1], 0);
}

TEST(ReduceElements, RoundsBfloatOnceToNearestEven) {
  // 1 + 2^-8 + 2^-8: rounding after each addition would give 1 twice, and lose both.
  const std::uint16_t one = 0x3f80, tiny = 0x3b80;
  std::uint16_t out = 0;
  reduce_elements(DType::bf16, ReduceOp::sum, {&one, &tiny, &tiny}, {&out}, 1);
  EXPECT_EQ(out, 0x3f81);
  // Half way between two values: to the even one.
  reduce_elements(DType::bf16, ReduceOp::sum, {&one, &tiny}, {&out}, 1);
  EXPECT_EQ(out, 0x3f80);
  const std::uint16_t odd = 0x3f81;
  reduce_elements(DType::bf16, ReduceOp::sum, {&odd, &tiny}, {&out}, 1);
  EXPECT_EQ(out, 0x3f82);
}

TEST(ReduceElements, KeepsNaNsAndRefusesSumsOfBooleans) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), one = 1;
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
    float out = 0;
    reduce_elements(DType::fp32, op, {&nan, &one}, {&out}, 1);
    EXPECT_NE(out, out);
    reduce_elements(DType::fp32, op, {&one, &nan}, {&out}, 1);
    EXPECT_NE(out, out);
  }
  const u8 flag = 1;
  u8 out = 0;
  EXPECT_THROW(reduce_elements(DType::boolean, ReduceOp::sum, {&flag, &flag}, {&out}, 1), Error);
}

}  // namespace direct_engine_test
}  // namespace tessera

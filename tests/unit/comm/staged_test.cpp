#include <gmock/gmock.h>

#include "kernel/comm/block_cache.hpp"
#include "kernel/comm/block_layout.hpp"
#include "kernel/comm/staged.hpp"
#include "kernel/dry/simulated.hpp"
#include "tessera/device/host_device.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace staged_test {

using ::testing::ThrowsMessage;

TensorArg floats(std::byte* address, i64 elements) {
  return {address, DType::fp32, 1, {elements}, {1}};
}

std::byte memory[4096];  // of tensors

Collective of_kind(CollectiveKind kind) {
  Collective collective;
  collective.kind = kind;
  collective.input = floats(memory, 10);
  return collective;
}

TEST(BlockLayout, OfCollectivesInPlace) {
  const BlockLayout sum(of_kind(CollectiveKind::all_reduce), 1);
  EXPECT_EQ(sum.bytes(), 40);
  ASSERT_EQ(sum.sent().size(), 1U);
  ASSERT_EQ(sum.received().size(), 1U);
  EXPECT_EQ(sum.received()[0].address, memory);
  // A broadcast is copied from its root, and to the others.
  for (const int index : {0, 1}) {
    const BlockLayout spread(of_kind(CollectiveKind::broadcast), index);
    EXPECT_EQ(spread.sent().size(), index == 0 ? 1U : 0U);
    EXPECT_EQ(spread.received().size(), index == 0 ? 0U : 1U);
  }
}

TEST(BlockLayout, OfInputsAndOutputs) {
  Collective gather = of_kind(CollectiveKind::all_gather);
  gather.output = floats(memory + 80, 20);
  const BlockLayout layout(gather, 0);
  EXPECT_EQ(layout.bytes(), 64 + 80);
  std::byte block[256];
  const Collective moved = layout.moved(gather, block);
  EXPECT_EQ(moved.input.address, block);
  EXPECT_EQ(moved.output.address, block + 64);
}

// Rows that follow each other are one copy; others begin at a multiple of 64 bytes.
TEST(BlockLayout, OfTransfers) {
  Collective rows;
  rows.kind = CollectiveKind::exchange;
  rows.sends = {{0, floats(memory, 3)},
                {1, floats(memory + 12, 0)},
                {1, floats(memory + 12, 5)},
                {1, floats(memory + 100, 2)}};
  rows.receives = {{1, floats(memory + 108, 4)}, {0, floats(memory + 200, 1)}};
  const BlockLayout layout(rows, 0);
  ASSERT_EQ(layout.sent().size(), 2U);
  EXPECT_EQ(layout.sent()[0].bytes, 32);
  EXPECT_EQ(layout.sent()[1].offset, 64);
  ASSERT_EQ(layout.received().size(), 2U);
  EXPECT_EQ(layout.received()[0].offset, 128);
  EXPECT_EQ(layout.bytes(), 192 + 4);
  std::byte block[256];
  const Collective moved = layout.moved(rows, block);
  EXPECT_EQ(moved.sends[2].tensor.address, block + 12);
  EXPECT_EQ(moved.sends[2].tensor.bytes(), 20);
  EXPECT_EQ(moved.receives[1].tensor.address, block + 192);
}

TEST(BlockCache, TakesTheOldestOfASizeAgain) {
  HostDevice device("test", {}, {});
  BlockCache blocks(device);
  const HostBlock first = blocks.take(5000), second = blocks.take(8192), small = blocks.take(1);
  EXPECT_EQ(first.bytes(), 8192);
  EXPECT_EQ(second.bytes(), 8192);
  EXPECT_EQ(small.bytes(), 4096);
  std::byte* const address = second.address();
  blocks.give_back(second, {});
  blocks.give_back(first, {});
  EXPECT_EQ(blocks.take(6000).address(), address);
  EXPECT_EQ(device.memory().system_calls, HostDevice("test", {}, {}).memory().system_calls + 3);
}

// Work that is queued still reads the block.
TEST(BlockCache, WaitsForTheLastCopy) {
  DeviceArguments arguments;
  arguments.deferred_seed = 3;
  HostDevice device("test", arguments, {});
  BlockCache blocks(device);
  HostBlock block = blocks.take(4);
  bool copied = false;
  device.launch_host(device.stream(), "copy", [&] { copied = true; });
  blocks.give_back(std::move(block), device.record(device.stream()));
  EXPECT_FALSE(copied);
  blocks.take(4);
  EXPECT_TRUE(copied);
}

// Carries memory of the host, and its groups do not work there.
class Elsewhere : public Communicator {
 public:
  class Group final : public GroupBackend {
   public:
    std::shared_ptr<PendingCollective> do_start(Collective, Stream&) override { return nullptr; }
    bool capturable() const override { return false; }
  };
  std::string_view do_name() const override { return "wires"; }
  std::unique_ptr<GroupBackend> do_create_group(const GroupSpec&, Device&) override {
    return std::make_unique<Group>();
  }
  void do_abort(std::string_view) noexcept override {}
};

class Gpu : public HostDevice {
 public:
  Gpu() : HostDevice("gpu", {}, {}) {}
  std::string_view memory_kind() const override { return "gpu"; }
};

TEST(StagedCommunicator, NeedsGroupsOfTheHost) {
  Gpu device;
  StagedCommunicator staged(std::make_shared<Elsewhere>(), device);
  EXPECT_EQ(staged.name(), "wires, staged");
  EXPECT_EQ(staged.memory_kind(), "gpu");
  EXPECT_EQ(staged.memory(), nullptr);
  EXPECT_THAT(
      [&] {
        staged.create_group({.name = "tp[0,1]", .members = {0, 1}}, device);
      },
      ThrowsMessage<ConfigError>(
          "comm.staged = true: communicator \"wires\" does not carry out the collectives "
          "of tp[0,1] on the host; choose another [comm] type"));
}

TEST(StagedCommunicator, RefusesWhatNeedsNoStaging) {
  HostDevice device("cpu", {}, {});
  EXPECT_THAT([&] { StagedCommunicator(std::make_shared<Elsewhere>(), device); },
              ThrowsMessage<ConfigError>(
                  "comm.staged = true has no effect: communicator \"wires\" carries tensors of "
                  "device \"cpu\" where they are, in memory of kind \"host\"; leave it out"));
}

}  // namespace staged_test
}  // namespace tessera

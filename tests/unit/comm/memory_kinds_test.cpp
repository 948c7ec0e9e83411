#include <gmock/gmock.h>

#include "kernel/comm/build_mesh.hpp"
#include "kernel/comm/memory_kinds.hpp"
#include "kernel/comm/per_host.hpp"
#include "kernel/comm/store.hpp"
#include "kernel/dry/simulated.hpp"
#include "tessera/device/host_device.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace memory_kinds_test {

using ::testing::ThrowsMessage;

class FakeDevice : public HostDevice {
 public:
  explicit FakeDevice(std::string kind) : HostDevice("fake", {}, {}), kind_(std::move(kind)) {}
  std::string_view memory_kind() const override { return kind_; }

 private:
  std::string kind_;
};

class FakeCommunicator : public Communicator {
 public:
  explicit FakeCommunicator(std::string kind) : kind_(std::move(kind)) {}
  std::string_view do_name() const override { return "wires"; }
  std::string_view do_memory_kind() const override { return kind_; }
  std::unique_ptr<GroupBackend> do_create_group(const GroupSpec&, Device&) override {
    ++groups;
    return nullptr;
  }
  void do_abort(std::string_view) noexcept override {}
  int groups = 0;

 private:
  std::string kind_;
};

TEST(MemoryKinds, OfDeviceAndCommunicatorAreOne) {
  FakeDevice cuda("cuda");
  FakeCommunicator host("host"), nccl("cuda");
  Mesh mesh(RankGenerator({.world = 2, .tensor = 2}), 0);
  EXPECT_THAT(
      [&] { build_mesh(mesh, host, cuda); },
      ThrowsMessage<ConfigError>(
          "device \"fake\" keeps tensors in memory of kind \"cuda\", and communicator \"wires\" "
          "carries those of kind \"host\": choose a [device] type and a [comm] type for one kind "
          "of memory, or comm.staged = true, which copies what ranks exchange through memory of "
          "the host"));
  EXPECT_EQ(host.groups, 0) << "found before anything starts";
  check_memory_kinds(cuda, nccl, false);
  check_memory_kinds(cuda, SimulatedCommunicator(), false);
  check_memory_kinds(cuda, host, true);
  FakeDevice tpu("tpu");
  EXPECT_THAT(
      [&] { check_memory_kinds(tpu, nccl, false); },
      ThrowsMessage<ConfigError>(
          "device \"fake\" keeps tensors in memory of kind \"tpu\", and communicator \"wires\" "
          "carries those of kind \"cuda\": choose a [device] type and a [comm] type for one kind "
          "of memory"));
  EXPECT_THAT(
      [&] { check_memory_kinds(tpu, nccl, true); },
      ThrowsMessage<ConfigError>(
          "comm.staged = true copies tensors of device \"fake\" through memory of the host, and "
          "communicator \"wires\" carries those of kind \"cuda\": choose a [comm] type that "
          "carries memory of kind \"host\", or a [device] type with memory of kind "
          "\"cuda\" and no comm.staged"));
}

TEST(MemoryKinds, WithinAndBetweenHostsAreOne) {
  InProcessStore store;
  CommunicatorArguments arguments{0, 2, &store};
  const auto make = [](std::string kind) {
    return [kind](CommunicatorArguments&) { return std::make_shared<FakeCommunicator>(kind); };
  };
  const Hosts hosts({"a", "a"});
  EXPECT_EQ(PerHostCommunicator(hosts, arguments, make("cuda"), make("cuda")).memory_kind(),
            "cuda");
  EXPECT_THAT(
      [&] { PerHostCommunicator(hosts, arguments, make("host"), make("cuda")); },
      ThrowsMessage<ConfigError>(
          "communicator \"wires\", within hosts, carries tensors in memory of kind "
          "\"host\", and \"wires\", between them, in memory of kind \"cuda\": choose two for "
          "one kind"));
}

TEST(MemoryKinds, OfADevicesSourceIsItsOwn) {
  struct Foreign : MemorySource {
    std::string_view kind() const override { return "cuda"; }
    void* reserve(i64) override { return nullptr; }
    void release(void*, i64) override {}
  };
  DeviceArguments arguments;
  arguments.memory = std::make_shared<Foreign>();
  EXPECT_THAT(
      [&] { HostDevice("cpu", arguments, {}); },
      ThrowsMessage<ConfigError>(
          "device \"cpu\" keeps tensors in memory of kind \"host\", and its communicator "
          "brings memory of kind \"cuda\": choose a device and a communicator for one kind"));
}

}  // namespace memory_kinds_test
}  // namespace tessera

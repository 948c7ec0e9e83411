// Groups whose collectives a device's own library enqueues.
#include <gtest/gtest.h>

#include "tessera/device/communicator.hpp"
#include "unit/tensor/tensor_support.hpp"

namespace tessera {
namespace device_group_test {

class Pending final : public PendingCollective {
 public:
  void do_wait(Stream&) override {}
  void do_join() override {}
};
class Library final : public GroupBackend {
 public:
  std::shared_ptr<PendingCollective> do_start(Collective, Stream&) override {
    return std::make_shared<Pending>();
  }
  bool capturable() const override { return true; }
};

TEST(DeviceGroup, WhatAGraphRecordedIsCountedByItsReplays) {
  testing_support::TestDevice device{DeviceArguments()};
  ProcessGroup group({.name = "tp[0,1]", .members = {0, 1}}, std::make_unique<Library>(), 0);
  const Tensor x = testing_support::empty(device, {8});
  const auto counted = [&] { return group.counters()[CollectiveKind::all_reduce]; };
  const auto sum = [&] {
    group.all_reduce(device.stream(), x, ReduceOp::sum, "x").wait(device.stream());
  };
  sum();
  EXPECT_EQ(counted().calls, 1);
  device.begin_capture(device.stream());
  sum();
  sum();
  const auto graph = device.end_capture(device.stream());
  EXPECT_EQ(counted().calls, 1) << "a capture runs nothing";
  for (int replay = 1; replay <= 3; ++replay) {
    device.replay(*graph, device.stream());
    EXPECT_EQ(counted().calls, 1 + 2 * replay);
    EXPECT_EQ(counted().bytes, counted().calls * x.bytes());
  }
}

}  // namespace device_group_test
}  // namespace tessera

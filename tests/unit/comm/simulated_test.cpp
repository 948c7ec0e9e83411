#include "kernel/comm/simulated.hpp"

#include <gtest/gtest.h>

#include "kernel/comm/build_mesh.hpp"
#include "kernel/tensor/meta_device.hpp"

namespace tessera {
namespace simulated_test {

Tensor floats(Device& device, const Shape& shape) {
  return Tensor::allocate(
      device, device.pool(), device.stream(), shape, DType::fp32, Category::activations);
}

TEST(Simulated, GroupsOfAnyWorldCountAsRealOnesDo) {
  struct Started {
    u64 id;
    std::string group, name;
    CollectiveKind kind;
  };
  std::vector<Started> started;
  std::vector<u64> waited;
  SimulatedCommunicator communicator(
      {.started =
           [&](u64 id, const GroupSpec& group, const Collective& c) {
             started.push_back({id, group.name, std::string(c.name.view()), c.kind});
           },
       .waited = [&](u64 id) { waited.push_back(id); }});
  MetaDevice device(std::make_shared<HostDevice>("none", DeviceArguments{}, std::vector<Kernel>{}));
  Mesh mesh(RankGenerator({.world = 512, .tensor = 8}), 11);
  build_mesh(mesh, communicator, device);

  const Tensor x = floats(device, {8, 100}), part = floats(device, {1, 100});
  Work reduction =
      mesh.group(Axis::data).all_reduce(device.stream(), x, ReduceOp::sum, "gradients");
  mesh.group(Axis::tensor).reduce_scatter(device.stream(), x, part, "rows").wait(device.stream());
  reduction.wait(device.stream());

  EXPECT_EQ(mesh.group(Axis::data).size(), 64);
  EXPECT_EQ(mesh.group(Axis::data).counters()[CollectiveKind::all_reduce].bytes, 3200);
  EXPECT_EQ(mesh.group(Axis::tensor).counters()[CollectiveKind::reduce_scatter].calls, 1);
  ASSERT_EQ(started.size(), 2U);
  EXPECT_EQ(started[0].name, "gradients");
  EXPECT_EQ(started[1].group, "tp[8,9,10,11,12,13,14,15]");
  EXPECT_EQ(started[1].kind, CollectiveKind::reduce_scatter);
  EXPECT_EQ(waited, (std::vector<u64>{1, 0}));
}

}  // namespace simulated_test
}  // namespace tessera

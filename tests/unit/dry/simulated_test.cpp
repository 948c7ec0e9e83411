#include "kernel/dry/simulated.hpp"

#include <gtest/gtest.h>

#include "kernel/comm/build_mesh.hpp"
#include "kernel/dry/meta_device.hpp"
#include "tessera/error.hpp"

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

// Parts of rows are those of slices; where only bytes count, neighbours for one peer are one part.
TEST(Simulated, RowsAreExchangedAsPartsOfTheirTensors) {
  for (const bool counts_only : {false, true}) {
    std::vector<Collective> started;
    SimulatedCommunicator communicator(
        {.started = [&](u64, const GroupSpec&, const Collective& c) { started.push_back(c); },
         .waited = {},
         .counts_only = counts_only});
    MetaDevice device(
        std::make_shared<HostDevice>("none", DeviceArguments{}, std::vector<Kernel>{}));
    Mesh mesh(RankGenerator({.world = 2, .tensor = 2}), 0);
    build_mesh(mesh, communicator, device);
    ProcessGroup& group = mesh.group(Axis::tensor);
    const Tensor x = floats(device, {8, 5}), y = floats(device, {3, 5});
    const auto wait = [&](Work work) { work.wait(device.stream()); };
    const std::vector<ProcessGroup::Rows> sends = {{1, &x, 0, 2}, {1, &x, 2, 1}, {0, &x, 3, 4}};
    const std::vector<ProcessGroup::Rows> receives = {{1, &x, 7, 1}, {1, &y, 0, 3}};
    wait(group.exchange_rows(device.stream(), sends, receives, "rows"));
    wait(group.exchange(
        device.stream(),
        counts_only ? std::vector<ProcessGroup::Part>{{1, x.slice(0, 0, 3)}, {0, x.slice(0, 3, 4)}}
                    : std::vector<ProcessGroup::Part>{{1, x.slice(0, 0, 2)},
                                                      {1, x.slice(0, 2, 1)},
                                                      {0, x.slice(0, 3, 4)}},
        {{1, x.slice(0, 7, 1)}, {1, y}},
        "parts"));
    const auto text = [](const std::vector<Transfer>& transfers) {
      std::string all;
      for (const Transfer& t : transfers) {
        all += fmt::format("{} {} {};", t.peer, t.tensor.address, t.tensor.shape[0]);
      }
      return all;
    };
    ASSERT_EQ(started.size(), 2U);
    EXPECT_EQ(text(started[0].sends), text(started[1].sends));
    EXPECT_EQ(text(started[0].receives), text(started[1].receives));
    EXPECT_EQ(group.counters()[CollectiveKind::exchange].bytes, 2 * 3 * 5 * 4)
        << "four rows stay on their rank";
    const std::vector<ProcessGroup::Rows> beyond = {{1, &x, 7, 2}};
    EXPECT_THROW(group.exchange_rows(device.stream(), beyond, receives, "rows"), Error);
  }
}

}  // namespace simulated_test
}  // namespace tessera

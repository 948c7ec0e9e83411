#include "kernel/train/gradients/gradient_sync.hpp"

#include <gmock/gmock.h>

#include <algorithm>

#include "kernel/comm/build_mesh.hpp"
#include "ranks_support.hpp"
#include "tessera/device/core_ops.hpp"
#include "tessera/device/host_device.hpp"

namespace tessera::testing {
namespace shared_gradients_test {

Tensor make(Device& device, const std::vector<double>& values) {
  Tensor tensor = Tensor::allocate(device,
                                   device.pool(),
                                   device.stream(),
                                   {static_cast<i64>(values.size())},
                                   DType::fp64,
                                   Category::gradients);
  device.write(tensor, values.data());
  return tensor;
}

std::vector<double> read(Device& device, const Tensor& tensor) {
  std::vector<double> values(static_cast<std::size_t>(tensor.elements()));
  device.read(tensor, values.data());
  return values;
}

void add(const AddArgs& args) {
  for (i64 i = 0; i < args.out.elements(); ++i) {
    args.out.as<double>()[i] = args.a.as<double>()[i] + args.b.as<double>()[i];
  }
}

Context context_of(Device& device, const CoreOps& ops) {
  Context cx;
  cx.device = &device;
  cx.ops = &ops;
  cx.stream = &device.stream();
  cx.pool = &device.pool();
  return cx;
}

// One shared parameter over a pipeline of ranks, as each of its holders declares it.
struct Tied {
  Tied(TestRank& rank, Device& device, i64 ranks, const std::vector<int>& holders)
      : mesh(RankGenerator({.world = ranks, .pipeline = ranks}), rank.rank),
        parts(mesh, {{"embedding.weight", holders}}) {
    build_mesh(mesh, rank.communicator, device);
    if (std::ranges::find(holders, rank.rank) == holders.end()) return;
    parameter = &parts.declare({.name = "weight",
                                .shape = {2},
                                .share = "embedding.weight",
                                .placement = Placement::replicated()},
                               "",
                               0);
  }
  GradientSync sync(Device& device) {
    memory = ParameterMemory(parts.parameter_list(), {64});
    memory.allocate_values(device, DType::fp64, DType::fp64);
    return {memory, mesh, device};
  }
  Mesh mesh;
  ModelParts parts;
  ParameterMemory memory;
  Parameter* parameter = nullptr;
};

// Three numbers whose sum depends on the order: 1e16 absorbs 1 unless the large ones meet first.
TEST(SharedGradients, AreSummedInTheOrderOfTheStagesOnEveryHolder) {
  const auto errors = run_threads({.world = 4}, [](TestRank& on) {
    HostDevice device("adds", {}, {make_kernel<AddArgs>(&add)});
    const CoreOps ops(device);
    Context cx = context_of(device, ops);
    const double values[] = {-1e16, 0, 1, 1e16};
    Tied tied(on, device, 4, {3, 0, 2});  // their stages' order
    GradientSync sync = tied.sync(device);
    if (tied.parameter != nullptr) {
      const std::vector<double> gradient = {values[on.rank], 2};
      device.write(tied.parameter->grad, gradient.data());
      tied.parameter->main = make(device, {5, 5});
    }
    sync.finish(cx);
    sync.check_shared_equal(cx);
    if (tied.parameter != nullptr) {
      EXPECT_EQ(read(device, tied.parameter->grad), (std::vector<double>{1, 6}));
    }
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(SharedGradients, CopiesThatDifferAreNamed) {
  const auto errors = run_threads({.world = 2}, [](TestRank& rank) {
    const CoreOps ops(rank.device);
    Context cx = context_of(rank.device, ops);
    Tied tied(rank, rank.device, 2, {0, 1});
    const GradientSync sync = tied.sync(rank.device);
    tied.parameter->main = make(rank.device, {rank.rank == 0 ? 1.0 : 2.0, 0});
    sync.check_shared_equal(cx);
  });
  for (const std::string& error : errors) {
    EXPECT_THAT(error, ::testing::HasSubstr("\"embedding.weight\" on pipeline ranks 0 and 1"));
  }
}

}  // namespace shared_gradients_test
}  // namespace tessera::testing

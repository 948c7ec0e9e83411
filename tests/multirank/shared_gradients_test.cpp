#include "kernel/train/gradients/shared_gradients.hpp"

#include <gmock/gmock.h>

#include "ranks_support.hpp"
#include "tessera/core_ops.hpp"
#include "tessera/host_device.hpp"

namespace tessera::testing {
namespace {

Tensor make(Device& device, const std::vector<double>& values) {
  Tensor tensor = Tensor::allocate(device,
                                   device.pool(),
                                   device.stream(),
                                   {static_cast<i64>(values.size())},
                                   DType::f64,
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

// Three numbers whose sum depends on the order: 1e16 absorbs 1 unless the large ones meet first.
TEST(SharedGradients, AreSummedInTheOrderOfTheStagesOnEveryHolder) {
  const auto errors = run_threads({.world = 4}, [](TestRank& on) {
    HostDevice device("adds", {}, {make_kernel<AddArgs>(&add)});
    TestRank rank{on.rank, on.world, on.communicator, device, on.store};
    const auto group = make_world_group(rank);
    const CoreOps ops(rank.device);
    Context cx = context_of(rank.device, ops);
    SharedGradients::Holders all;
    Parameter tied;
    tied.name = "embedding.weight";
    const std::vector<int> holders = {3, 0, 2};  // their stages' order
    const double values[] = {-1e16, 0, 1, 1e16};
    if (rank.rank != 1) {
      tied.grad = make(rank.device, {values[rank.rank], 2});
      tied.main = make(rank.device, {5});
      all.emplace_back(&tied, holders);
    }
    const SharedGradients shared(all, *group);
    shared.sum(cx);
    shared.check_equal(cx);
    if (rank.rank != 1) {
      EXPECT_EQ(read(rank.device, tied.grad), (std::vector<double>{1, 6}));
    }
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(SharedGradients, CopiesThatDifferAreNamed) {
  const auto errors = run_threads({.world = 2}, [](TestRank& rank) {
    const auto group = make_world_group(rank);
    const CoreOps ops(rank.device);
    Context cx = context_of(rank.device, ops);
    Parameter tied;
    tied.name = "embedding.weight";
    tied.main = make(rank.device, {rank.rank == 0 ? 1.0 : 2.0});
    tied.grad = make(rank.device, {0});
    SharedGradients({{&tied, {0, 1}}}, *group).check_equal(cx);
  });
  for (const std::string& error : errors) {
    EXPECT_THAT(error, ::testing::HasSubstr("\"embedding.weight\" on pipeline ranks 0 and 1"));
  }
}

}  // namespace
}  // namespace tessera::testing

// What a device with memory of its own launches before the ranks' groups exist.
#include "kernel/train/run/warm_up.hpp"
#include "kernel/dry/dry_rank.hpp"
#include "kernel/train/setup/make_rank.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "invariant_support.hpp"
#include "kernel/train/execution/train_step.hpp"
#include "trainer_support.hpp"

namespace tessera::testing {
namespace warm_up_test {

using Counts = std::map<std::string, int, std::less<>>;  // launches by operation

/// `reference` with kernels that count.
std::shared_ptr<Device> counting_device(Counts& counts) {
  DeviceArguments arguments;
  arguments.kernels = [&counts](std::string_view, std::string_view memory_kind) {
    std::vector<Kernel> kernels = plugins().kernels("reference", memory_kind);
    for (Kernel& kernel : kernels) {
      kernel.launch = [&count = counts[kernel.operation], launch = kernel.launch](
                          const void* args, void* workspace, Stream& stream) {
        ++count;
        launch(args, workspace, stream);
      };
    }
    return kernels;
  };
  return std::make_shared<HostDevice>("reference", arguments, std::vector<Kernel>{});
}

TEST(WarmUp, LaunchesWhatAStepLaunchesOnceAndLeavesNothing) {
  const Resolved config = resolve(Config::parse(tiny_config(), "test", Sets{}), plugins());
  const RunSetup setup = derive_setup(config, plugins(), 1);
  Counts counts;
  const auto device = counting_device(counts);
  warm_up_of(setup)(0, device);

  Counts of_step;
  DryEvents events;
  events.launched = [&](const Kernel& kernel, const void*) { ++of_step[kernel.operation]; };
  const Rank rank = dry_rank(setup.layout, 0, device, std::move(events));
  PlacedModel model(rank, setup);
  TrainStep step(model);
  step.run();
  for (const auto& [operation, launches] : of_step) {
    const auto found = counts.find(operation);
    // Those of every host device are not counted, and `fill` makes the zeros.
    if (found == counts.end() || operation == FillArgs::kName) continue;
    EXPECT_GT(found->second, 0) << operation;
    EXPECT_LE(found->second, launches + 1) << operation;
  }
  EXPECT_GT(of_step["gelu"], 1);  // of each layer and microbatch
  EXPECT_EQ(counts["gelu"], 1);   // at one shape, without constants
  EXPECT_GT(counts["adamw"], 0);
  EXPECT_EQ(device->memory().total, 0);
  EXPECT_EQ(device->memory().total_peak, 0);
}

}  // namespace warm_up_test
}  // namespace tessera::testing

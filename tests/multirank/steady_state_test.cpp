// The steady state asks the system for no memory.
#include <gtest/gtest.h>

#include <mutex>

#include "training_support.hpp"

namespace tessera::testing {
namespace steady_state_test {

class SteadyState : public ::testing::TestWithParam<std::vector<std::string>> {};

TEST_P(SteadyState, Steps5To10AskTheSystemForNoMemory) {
  std::mutex mutex;
  int checked = 0;
  const auto check = [&](RankRun& run) {
    const MemoryStats before = run.device().memory();
    for (int step = 5; step <= 10; ++step) {
      run.step().run();
      run.step().losses();
    }
    const MemoryStats after = run.device().memory();
    const std::lock_guard lock(mutex);
    EXPECT_GT(before.system_calls, 0);
    EXPECT_EQ(after.system_calls, before.system_calls);
    EXPECT_EQ(after.reserved, before.reserved);
    EXPECT_EQ(after.total, before.total) << "a step leaves memory behind";
    EXPECT_EQ(after.total_peak, before.total_peak) << "a later step needs more than an earlier one";
    ++checked;
  };
  train(tiny_config(),
        [&] {
          std::vector<std::string> sets = GetParam();
          sets.insert(sets.begin(), {"device.type=\"cpu\"", "parallel.tensor=2"});
          return sets;
        }(),
        {.steps = 4, .at_end = check});
  EXPECT_GE(checked, 2);
}

INSTANTIATE_TEST_SUITE_P(Batches,
                         SteadyState,
                         ::testing::ValuesIn(std::vector<std::vector<std::string>>{
                             {"batch.micro=2"},
                             {"batch.micro=8"},
                             {"parallel.data=2"},
                             {"parallel.sequence_parallel=true"},
                             {"parallel.context=2"},
                             {"recompute.mode=\"full\""},
                             {"graph.type=\"full_iteration\""},
                             {"graph.type=\"full_iteration\"", "parallel.data=2"},
                             {"parallel.pipeline=2", "schedule.type=\"1f1b\"", "batch.micro=1"},
                             {"parallel.pipeline=2", "schedule.type=\"zb_h1\"", "batch.micro=1"},
                             {"model.block.mlp.type=\"moe\"",
                              "model.block.mlp.experts=4",
                              "model.block.mlp.ffn=8",
                              "model.block.mlp.router.type=\"expert_choice\"",
                              "model.block.mlp.pad_to_capacity=true",
                              "parallel.expert=2",
                              "parallel.expert_tensor=1"}}),
                         [](const auto& info) { return "case" + std::to_string(info.index); });

// A step reads nothing back to the host. What is read between steps does not count.
TEST_P(SteadyState, AStepNeitherReadsNorWritesNorWaits) {
  const auto check = [&](RankRun& run) {
    for (int step = 0; step < 3; ++step) {
      const HostCalls before = run.device().host_calls();
      run.step().run();
      const HostCalls after = run.device().host_calls();
      EXPECT_EQ(after.read, before.read);
      EXPECT_EQ(after.write, before.write);
      EXPECT_EQ(after.synchronize, before.synchronize);
      run.step().losses();
    }
  };
  for (const std::string tensor : {"parallel.tensor=1", "parallel.tensor=2"}) {
    std::vector<std::string> sets = GetParam();
    if (tensor.back() == '1' && sets.front() == "parallel.sequence_parallel=true") continue;
    sets.insert(sets.begin(), {"device.type=\"cpu\"", tensor});
    train(tiny_config(), sets, {.steps = 2, .at_end = check});
  }
}

// What a dispatcher needs to know of the routing is all that the host waits for within a step.
TEST(SteadyStateExperts, TheHostWaitsOnceALayerAndMicrobatch) {
  const auto calls = [](std::vector<std::string> sets) {
    sets.insert(sets.begin(), {"parallel.data=2", "batch.micro=1"});
    HostCalls made;
    train(tiny_config(), sets, {.steps = 2, .at_end = [&](RankRun& run) {
                                  const HostCalls before = run.device().host_calls();
                                  run.step().run();
                                  if (run.mesh().rank() != 0) return;
                                  const HostCalls after = run.device().host_calls();
                                  made = {after.read - before.read,
                                          after.write - before.write,
                                          after.synchronize - before.synchronize,
                                          after.join - before.join};
                                }});
    return made;
  };
  const std::vector<std::string> moe = {
      "model.block.mlp.type=\"moe\"", "model.block.mlp.experts=4", "model.block.mlp.ffn=8"};
  const HostCalls dense = calls({});
  EXPECT_EQ(calls(moe), dense) << "with all experts on each rank nothing has to be known";
  HostCalls expected = dense;
  expected.join += 2 * 4;  // layers × microbatches
  for (const std::string more : {"recompute.mode=\"none\"",
                                 "recompute.mode=\"full\"",
                                 "model.block.mlp.dispatcher.type=\"allgather\""}) {
    std::vector<std::string> sets = moe;
    sets.insert(sets.end(), {"parallel.expert=2", more});
    EXPECT_EQ(calls(sets), expected) << more;
  }
}

TEST(SteadyStateCategories, PeaksAreCountedByUse) {
  train(tiny_config(),
        {"device.type=\"cpu\""},
        {.steps = 2, .at_end = [](RankRun& run) {
           const MemoryStats stats = run.device().memory();
           const auto peak = [&](Category category) {
             return stats.peak[static_cast<std::size_t>(category)];
           };
           i64 parameters = 0;
           for (const Parameter* p : run.parts().parameter_list()) parameters += p->main.bytes();
           EXPECT_GE(peak(Category::parameters), parameters);
           EXPECT_GE(peak(Category::gradients), parameters);
           EXPECT_GE(peak(Category::optimizer), 2 * parameters);  // two moments
           EXPECT_GT(peak(Category::activations), 0);
         }});
}

}  // namespace steady_state_test
}  // namespace tessera::testing

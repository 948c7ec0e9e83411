// Trainings of several ranks on the device `cuda`, emulated (tests/cuda_emulated), by comm.staged.
#include <gmock/gmock.h>

#include <mutex>

#include "emulated_gpus_support.hpp"
#include "invariant_support.hpp"
#include "kernel/config/tree.hpp"
#include "kernel/planner/report.hpp"
#include "kernel/plugin/host.hpp"
#include "moe_rows_support.hpp"

namespace tessera::testing {
namespace staged_training_test {

using moe_rows::experts;
using moe_rows::kDistributed;
using moe_rows::kGather;

Sets staged(const Sets& sets) {
  return with({"device.type=\"cuda_emulated\"", "comm.staged=true"}, sets);
}

struct Row {
  const char* name;
  Sets sets;
  Sets model = {};
};

class StagedInvariant : public ::testing::TestWithParam<Row> {};

TEST_P(StagedInvariant, Holds) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "minutes a row: StagedTraining runs the same code";
#endif
  const Findings found =
      check_invariant(emulated_gpus(), staged(GetParam().sets), GetParam().model);
  EXPECT_TRUE(found.none()) << text(found);
}

// The others train as processes, in tests/e2e/staged_test.cpp.
INSTANTIATE_TEST_SUITE_P(
    Layouts,
    StagedInvariant,
    ::testing::Values(Row{"tp2_sp", moe_rows::kTensorRows},
                      Row{"zbv_pp2", moe_rows::stages("zbv", {"placement.layout=\"E|t|t|L\""})},
                      Row{"cp2_allgather",
                          {"parallel.context=2", "model.block.attention.context=\"allgather\""}},
                      Row{"cp2_all_to_all",
                          {"parallel.context=2", "model.block.attention.context=\"all_to_all\""}},
                      Row{"ep2_allgather", experts(2, {kGather}), moe_rows::model()},
                      Row{"distributed_dp4_ep2",
                          experts(2, {"parallel.data=4", kDistributed}),
                          moe_rows::model()}),
    [](const auto& info) { return std::string(info.param.name); });

struct Outcome {
  Training training;
  i64 system_calls = 0;  // of all ranks
  i64 host_blocks = 0;   // bytes of rank 0
  double units_per_rank = 0;
};

Outcome trained(const Sets& sets, int steps, bool one_unit = false) {
  Outcome outcome;
  std::mutex mutex;
  outcome.training = train(
      tiny_config(),
      staged(sets),
      {.steps = steps, .one_unit = one_unit, .host = &emulated_gpus(), .at_end = [&](RankRun& run) {
         const std::lock_guard lock(mutex);
         const MemoryStats memory = run.device().memory();
         outcome.system_calls += memory.system_calls;
         if (run.mesh().rank() > 0) return;
         outcome.host_blocks = memory.host_blocks;
         outcome.units_per_rank = run.rank().units_per_rank;
       }});
  return outcome;
}

TEST(StagedTraining, HasTheSameBitsInEachRunAndOnOneGpu) {
  const Sets sets = {"parallel.tensor=2", "parallel.pipeline=2", "device.share=4"};
  const Training once = trained(sets, 3).training;
  for (const bool one_unit : {false, true}) {
    const auto [again, calls, blocks, units] = trained(sets, 3, one_unit);
    EXPECT_EQ(units, one_unit ? 0.25 : 1);
    EXPECT_EQ(again.losses, once.losses);
    EXPECT_EQ(again.norms, once.norms);
    EXPECT_EQ(again.parameters, once.parameters);
  }
}

// The GPUs by rank, where all ranks of a host make their device.
std::vector<std::string> gpus_of(int ranks, int share) {
  std::vector<std::string> gpus;
  for (int rank = 0; rank < ranks; ++rank) {
    DeviceArguments arguments;
    arguments.local_rank = rank;
    arguments.local_world = ranks;
    arguments.share = share;
    arguments.kernels = [](std::string_view device, std::string_view memory) {
      return emulated_gpus().kernels(device, memory);
    };
    const auto device = emulated_gpus().make<Device>(
        "cuda_emulated", *make_node(std::make_shared<ConfigTree>(), "device"), {}, arguments);
    gpus.push_back(device->unit().text.substr(0, device->unit().text.find(',')));
  }
  return gpus;
}

TEST(StagedTraining, SpreadsOverAllGpusBeforeRanksShareThem) {
  const auto of = [](int gpu) { return "GPU " + std::to_string(gpu) + " of 8"; };
  EXPECT_THAT(gpus_of(4, 2), ::testing::ElementsAre(of(0), of(1), of(2), of(3)));
  EXPECT_THAT(
      gpus_of(10, 4),
      ::testing::ElementsAre(of(0), of(0), of(1), of(1), of(2), of(2), of(3), of(3), of(4), of(4)));
  EXPECT_THAT([] { gpus_of(17, 2); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr(
                  "has no GPU for each of 17 ranks of this host: 8 GPUs are visible, for 2 ranks "
                  "each (device.share); start at most 16 there, or let 3 ranks have one "
                  "(device.share = 3)")));
}

TEST(StagedTraining, AsksTheSystemForNothingAfterTheSecondStep) {
  const Sets sets = {"parallel.tensor=2", "parallel.data=2", kDistributed};
  EXPECT_EQ(trained(sets, 2).system_calls, trained(sets, 5).system_calls);
}

// These come besides those that one rank has, for inputs, statistics and rates. The last stage,
// which has more inputs than the first, reads no tokens: two blocks of four microbatches.
TEST(StagedTraining, TakesTheHostBlocksThatThePlanSays) {
  const std::string no_check = "check.replicas_every=0";
  const Sets sets = {"parallel.tensor=2", "parallel.pipeline=2", no_check};
  const Resolved config =
      resolve(Config::parse(tiny_config(), "test", staged(sets)), emulated_gpus());
  PlanArguments arguments;
  arguments.config = &config;
  arguments.plugins = &emulated_gpus();
  arguments.world = 4;
  const i64 planned = predict(arguments).classes.front().staged;
  EXPECT_GT(planned, 0);
  const i64 tokens = 2 * 4 * 2 * 8 * dtype_size(DType::i64);
  EXPECT_EQ(trained(sets, 3).host_blocks + tokens - trained({no_check}, 3).host_blocks, planned);
}

// What is captured must not contain a collective: the dry run says so, before ranks start.
TEST(StagedTraining, RecordsNoCollectives) {
  EXPECT_THAT(
      [] {
        trained({"parallel.tensor=2", "graph.type=\"partial\""}, 1);
      },
      ::testing::ThrowsMessage<Error>(
          ::testing::HasSubstr("its communicator cannot record collectives in graphs")));
}

}  // namespace staged_training_test
}  // namespace tessera::testing

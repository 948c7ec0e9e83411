// Trainings over the communicator `nccl`, with the device `cuda`: both emulated
// (tests/cuda_emulated).
#include <gmock/gmock.h>

#include "emulated_gpus_support.hpp"
#include "moe_rows_support.hpp"
#include "trainer_support.hpp"

namespace tessera::testing {
namespace nccl_test {

using moe_rows::experts;
using moe_rows::kDistributed;
using moe_rows::kGather;
using moe_rows::stages;

Sets on_nccl(const Sets& sets) {
  return with({"device.type=\"cuda_emulated\"", "comm.type=\"nccl_emulated\""}, sets);
}

struct Row {
  const char* name;
  Sets sets;
  Sets model = {};
};

class NcclInvariant : public ::testing::TestWithParam<Row> {};

TEST_P(NcclInvariant, Holds) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "minutes a row: NcclTraining runs the same code";
#endif
  const Findings found =
      check_invariant(emulated_gpus(), on_nccl(GetParam().sets), GetParam().model);
  EXPECT_TRUE(found.none()) << text(found);
}

const Sets kFourStages = {"placement.layout=\"E|t|t|L\""};

const std::string kPairs = "schedule.overlap=true";

INSTANTIATE_TEST_SUITE_P(Layouts,
                         NcclInvariant,
                         ::testing::Values(Row{"tp2_sp", moe_rows::kTensorRows},
                                           Row{"pp2_1f1b", stages("1f1b", {})},
                                           Row{"pp2_zbv", stages("zbv", kFourStages)},
                                           Row{"cp2_ring", {"parallel.context=2"}},
                                           Row{"dp2_distributed",
                                               {"parallel.data=2", kDistributed}},
                                           Row{"ep2_alltoall_pairs",
                                               experts(2, {"batch.micro=1", kPairs}),
                                               moe_rows::model()},
                                           Row{"ep2_allgather_pairs",
                                               experts(2, {"batch.micro=1", kPairs, kGather}),
                                               moe_rows::model()}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(NcclTraining, HasTheLossesOfOneRankInBf16) {
  const Findings found = check_narrow(
      emulated_gpus(), {.compute = "bf16"}, on_nccl(moe_rows::kTensorRows), Rounding::other);
  EXPECT_TRUE(found.none()) << text(found);
}

Training trained(const Sets& sets, int steps = 4) {
  return train(tiny_config(), on_nccl(sets), {.steps = steps, .host = &emulated_gpus()});
}

TEST(NcclTraining, HasTheSameBitsInGraphs) {
  const Sets layout = {"parallel.tensor=2", "parallel.data=2", kDistributed};
  const Training eager = trained(layout);
  ASSERT_EQ(eager.losses.size(), 4U);
  for (const char* type : {"partial", "full_iteration"}) {
    const Training replayed = trained(with(layout, {fmt::format("graph.type=\"{}\"", type)}));
    EXPECT_EQ(replayed.losses, eager.losses) << type;
    EXPECT_EQ(replayed.norms, eager.norms) << type;
    EXPECT_TRUE(replayed.parameters == eager.parameters) << type;
  }
}

// As `tessera train` does: with what connects ranks before step 1.
TEST(NcclTraining, ResumesWithTheSameBits) {
  const TestFolder folder;
  const auto run = [&](const std::string& name, i64 stop_after) {
    const Sets sets = on_nccl({fmt::format("run.out=\"{}\"", folder.at(name)),
                               "run.steps=6",
                               "checkpoint.every_steps=3",
                               "observers.metrics.type=\"metrics\"",
                               "parallel.tensor=2",
                               "graph.type=\"partial\""});
    run_trainer({tiny_config(), sets, stop_after, &emulated_gpus()});
    return metric_of(folder.at(name), "loss");
  };
  const std::vector<double> whole = run("whole", 0);
  ASSERT_EQ(whole.size(), 6U);
  EXPECT_EQ(run("parts", 3).size(), 3U);
  EXPECT_EQ(run("parts", 0), whole);
}

}  // namespace nccl_test
}  // namespace tessera::testing

// One config, any layout, one loss curve.
#include <gtest/gtest.h>

#include "layouts_support.hpp"

namespace tessera::testing {
namespace invariant_test {

const std::string kRows = "parallel.sequence_parallel=true";

class Invariant : public ::testing::TestWithParam<TableRow> {};

TEST_P(Invariant, Holds) {
  const Findings found = check_invariant(plugins(), GetParam().sets);
  EXPECT_EQ(found.losses, "");
  EXPECT_EQ(found.norms, "");
  EXPECT_EQ(found.gradients, "");
  EXPECT_EQ(found.update, "");
}

INSTANTIATE_TEST_SUITE_P(Layouts,
                         Invariant,
                         ::testing::ValuesIn(table_layouts()),
                         [](const auto& info) { return info.param.name; });

// RMSNorm in place of layer normalisation: its weight's gradient is a sum over ranks where each has
// rows of its own.
class InvariantRmsNorm : public ::testing::TestWithParam<TableRow> {};

TEST_P(InvariantRmsNorm, Holds) {
  const Sets model = {"model.block.norm.type=\"rmsnorm\"", "model.head.norm.type=\"rmsnorm\""};
  const Findings found = check_invariant(plugins(), GetParam().sets, model);
  EXPECT_TRUE(found.none()) << text(found);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts,
    InvariantRmsNorm,
    ::testing::Values(TableRow{"tp2", {"parallel.tensor=2"}},
                      TableRow{"tp2_sp", {"parallel.tensor=2", kRows}},
                      TableRow{
                          "tp2_cp2_dp2_sp",
                          {"parallel.tensor=2", "parallel.context=2", "parallel.data=2", kRows}},
                      TableRow{"zbv_pp2_tp2_sp",
                               {"parallel.tensor=2",
                                "parallel.pipeline=2",
                                "schedule.type=\"zbv\"",
                                "placement.layout=\"E|t|t|L\"",
                                kRows}},
                      TableRow{"cpu_distributed_tp2_dp2_sp",
                               {"device.type=\"cpu\"",
                                "parallel.tensor=2",
                                "parallel.data=2",
                                "optimizer.type=\"distributed\"",
                                kRows}},
                      TableRow{"full_recompute_whole_step",
                               {"recompute.mode=\"full\"", "graph.type=\"full_iteration\""}}),
    [](const auto& info) { return info.param.name; });

class InvariantLong : public ::testing::TestWithParam<TableRow> {};

TEST_P(InvariantLong, LossesAndNormsOver100Steps) {
  const Training run = train(tiny_config(), GetParam().sets, {.steps = 100});
  EXPECT_EQ(difference(run.losses, one_rank(100).losses, 1e-5, "loss"), "");
  EXPECT_EQ(difference(run.norms, one_rank(100).norms, 1e-4, "gradient norm"), "");
}

// Two blocks make four stages with the embedding and the head on stages of their own.
Sets four_stages(std::string_view schedule, const Sets& more) {
  return with({"parallel.pipeline=2",
               fmt::format("schedule.type=\"{}\"", schedule),
               "placement.layout=\"E|t|t|L\""},
              more);
}

// Each of these may lose a little every step: sums over ranks, work put off, work done again.
INSTANTIATE_TEST_SUITE_P(
    Layouts,
    InvariantLong,
    ::testing::Values(TableRow{"tp2_dp2", {"parallel.tensor=2", "parallel.data=2"}},
                      TableRow{"tp2_cp2", {"parallel.tensor=2", "parallel.context=2"}},
                      TableRow{"zbv_pp2_tp2_sp", four_stages("zbv", {"parallel.tensor=2", kRows})},
                      TableRow{"interleaved_pp2_full_recompute",
                               four_stages("interleaved_1f1b",
                                           {"schedule.chunks=2", "recompute.mode=\"full\""})}),
    [](const auto& info) { return info.param.name; });

TEST(InvariantOneRank, Learns) {
  const Training& run = one_rank(100);
  EXPECT_LT(run.losses.back(), run.losses.front() - 1.0);
}

TEST(InvariantRepeat, SameLayoutSameBits) {
  const Sets sets = {"parallel.tensor=2", "parallel.data=2"};
  const Training first = train(tiny_config(), sets, {.steps = 5});
  const Training second = train(tiny_config(), sets, {.steps = 5});
  EXPECT_EQ(first.losses, second.losses);
  EXPECT_EQ(first.norms, second.norms);
  EXPECT_EQ(first.parameters, second.parameters);
}

}  // namespace invariant_test
}  // namespace tessera::testing

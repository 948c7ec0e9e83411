// One config, any layout, one loss curve.
#include <gtest/gtest.h>

#include "invariant_support.hpp"

namespace tessera::testing {
namespace invariant_test {

struct Layout {
  std::string name;
  Sets sets;
};
void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }

const std::string kRows = "parallel.sequence_parallel=true";
const std::string kGather = "model.block.attention.context=\"allgather\"";
const std::string kHeads = "model.block.attention.context=\"all_to_all\"";

// Every layout and every microbatch size of this version.
const std::vector<Layout>& layouts() {
  static const std::vector<Layout> kAll = {
      {"micro1", {"batch.micro=1"}},
      {"micro4", {"batch.micro=4"}},
      {"micro8", {"batch.micro=8"}},
      {"tp2", {"parallel.tensor=2"}},
      {"tp4", {"parallel.tensor=4"}},
      {"dp2", {"parallel.data=2"}},
      {"dp4", {"parallel.data=4"}},
      {"dp8", {"parallel.data=8", "batch.micro=1"}},
      {"tp2_dp2", {"parallel.tensor=2", "parallel.data=2"}},
      {"tp2_dp4", {"parallel.tensor=2", "parallel.data=4", "batch.micro=1"}},
      {"tp4_dp2", {"parallel.tensor=4", "parallel.data=2", "batch.micro=4"}},
      {"tp2_sp", {"parallel.tensor=2", kRows}},
      {"tp4_sp", {"parallel.tensor=4", kRows}},
      {"tp4_sp_micro1", {"parallel.tensor=4", "batch.micro=1", kRows}},
      {"tp2_dp2_sp", {"parallel.tensor=2", "parallel.data=2", kRows}},
      {"tp2_dp4_sp", {"parallel.tensor=2", "parallel.data=4", "batch.micro=1", kRows}},
      {"tp4_dp2_sp", {"parallel.tensor=4", "parallel.data=2", kRows}},
      {"cpu_tp4_sp", {"device.type=\"cpu\"", "parallel.tensor=4", kRows}},
      {"tp2_cp2_sp", {"parallel.tensor=2", "parallel.context=2", kRows}},
      {"tp2_cp2_dp2_sp", {"parallel.tensor=2", "parallel.context=2", "parallel.data=2", kRows}},
      {"sp_alone", {kRows}},
      {"cp2", {"parallel.context=2"}},
      {"cp2_micro1", {"parallel.context=2", "batch.micro=1"}},
      {"cp4", {"parallel.context=4"}},
      {"tp2_cp2", {"parallel.tensor=2", "parallel.context=2"}},
      {"dp2_cp2", {"parallel.data=2", "parallel.context=2"}},
      {"tp2_cp4", {"parallel.tensor=2", "parallel.context=4"}},
      {"cpu_tp2_cp2", {"device.type=\"cpu\"", "parallel.tensor=2", "parallel.context=2"}},
      {"cp_first",
       {"parallel.tensor=2", "parallel.context=2", "parallel.order=\"cp-tp-ep-dp-pp\""}},
      {"cp2_allgather", {"parallel.context=2", kGather}},
      {"cp4_allgather", {"parallel.context=4", kGather}},
      {"tp2_cp2_allgather", {"parallel.tensor=2", "parallel.context=2", kGather}},
      {"dp2_cp2_allgather", {"parallel.data=2", "parallel.context=2", kGather}},
      {"cp2_all_to_all", {"parallel.context=2", kHeads}},
      {"cp4_all_to_all", {"parallel.context=4", kHeads}},
      {"tp2_cp2_all_to_all", {"parallel.tensor=2", "parallel.context=2", kHeads}},
      {"dp2_cp2_all_to_all", {"parallel.data=2", "parallel.context=2", kHeads}},
      {"cpu_cp4_all_to_all", {"device.type=\"cpu\"", "parallel.context=4", kHeads}},
      {"buckets", {"parallel.data=2", "parallel.bucket_elements=1000"}},
      {"cpu", {"device.type=\"cpu\""}},
      {"cpu_tp2_dp2", {"device.type=\"cpu\"", "parallel.tensor=2", "parallel.data=2"}},
      {"dp_first", {"parallel.tensor=2", "parallel.data=2", "parallel.order=\"dp-cp-ep-tp-pp\""}},
  };
  return kAll;
}

class Invariant : public ::testing::TestWithParam<Layout> {};

TEST_P(Invariant, Holds) {
  const Findings found = check_invariant(plugins(), GetParam().sets);
  EXPECT_EQ(found.losses, "");
  EXPECT_EQ(found.norms, "");
  EXPECT_EQ(found.gradients, "");
  EXPECT_EQ(found.update, "");
}

INSTANTIATE_TEST_SUITE_P(Layouts, Invariant, ::testing::ValuesIn(layouts()), [](const auto& info) {
  return info.param.name;
});

class InvariantLong : public ::testing::TestWithParam<Layout> {};

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

// One of each that may lose a little every step: sums over ranks, work put off, work done again.
INSTANTIATE_TEST_SUITE_P(
    Layouts,
    InvariantLong,
    ::testing::Values(Layout{"tp2_dp2", {"parallel.tensor=2", "parallel.data=2"}},
                      Layout{"tp2_cp2", {"parallel.tensor=2", "parallel.context=2"}},
                      Layout{"zbv_pp2_tp2_sp", four_stages("zbv", {"parallel.tensor=2", kRows})},
                      Layout{"interleaved_pp2_full_recompute",
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

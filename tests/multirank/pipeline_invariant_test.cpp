// Any pipeline schedule and placement, one loss curve.
#include <gtest/gtest.h>

#include "invariant_support.hpp"

namespace tessera::testing {
namespace pipeline_invariant_test {

// Blocks enough for eight stages, the embedding and the head on stages of their own.
const Sets kDeep = {"model.layers=6", "batch.micro=1"};
const std::string kEightStages = "placement.layout=\"E|t|t|t|t|t|t|L\"";

// Four stages of two layers each.
const Sets kEven4 = {"placement.count_embedding=true", "placement.count_head=true"};

Sets pipeline(int ranks, std::string_view schedule, const Sets& more = {}) {
  return with(
      {fmt::format("parallel.pipeline={}", ranks), fmt::format("schedule.type=\"{}\"", schedule)},
      more);
}

struct Row {
  std::string name;
  Sets sets;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

const std::vector<Row>& rows() {
  static const std::vector<Row> kAll = {
      {"gpipe_pp2", pipeline(2, "gpipe")},
      {"1f1b_pp2", pipeline(2, "1f1b")},
      {"1f1b_pp2_micro2", pipeline(2, "1f1b", {"batch.micro=2"})},
      {"1f1b_pp2_uneven", pipeline(2, "1f1b", {"placement.first=1"})},
      {"1f1b_pp3_without_layers", pipeline(3, "1f1b", {"placement.layout=\"Et*3||t*3L\""})},
      {"interleaved_pp2_without_layers",
       pipeline(
           2,
           "interleaved_1f1b",
           {"schedule.chunks=2", "placement.layout=\"Et*3||t*2|tL\"", "recompute.mode=\"full\""})},
      {"1f1b_pp4", pipeline(4, "1f1b", kEven4)},
      {"1f1b_pp8", pipeline(8, "1f1b", {kEightStages})},
      {"interleaved_pp2", pipeline(2, "interleaved_1f1b", with(kEven4, {"schedule.chunks=2"}))},
      {"interleaved_pp4", pipeline(4, "interleaved_1f1b", {"schedule.chunks=2", kEightStages})},
      {"interleaved_pp2_v4", pipeline(2, "interleaved_1f1b", {"schedule.chunks=4", kEightStages})},
      {"interleaved_pp2_group3",
       pipeline(2,
                "interleaved_1f1b",
                with(kEven4, {"schedule.chunks=2", "schedule.microbatch_group=3"}))},
      {"zb_h1_pp2", pipeline(2, "zb_h1")},
      {"zb_h1_pp4", pipeline(4, "zb_h1", kEven4)},
      {"zbv_pp2", pipeline(2, "zbv", kEven4)},
      {"zbv_pp4", pipeline(4, "zbv", {kEightStages})},
      {"dualpipe_v_pp2", pipeline(2, "dualpipe_v", kEven4)},
      {"dualpipe_v_pp4", pipeline(4, "dualpipe_v", {kEightStages})},
      {"1f1b_pp2_tp2", pipeline(2, "1f1b", {"parallel.tensor=2"})},
      {"1f1b_pp2_tp2_sp",
       pipeline(2, "1f1b", {"parallel.tensor=2", "parallel.sequence_parallel=true"})},
      {"1f1b_pp2_dp2", pipeline(2, "1f1b", {"parallel.data=2"})},
      {"1f1b_pp2_cp2", pipeline(2, "1f1b", {"parallel.context=2"})},
      {"1f1b_pp2_tp2_dp2", pipeline(2, "1f1b", {"parallel.tensor=2", "parallel.data=2"})},
      {"zbv_pp2_tp2_dp2_sp",
       pipeline(2,
                "zbv",
                with(kEven4,
                     {"parallel.tensor=2", "parallel.data=2", "parallel.sequence_parallel=true"}))},
      {"zb_h1_pp2_tp2_cp2", pipeline(2, "zb_h1", {"parallel.tensor=2", "parallel.context=2"})},
      {"1f1b_pp2_buckets", pipeline(2, "1f1b", {"parallel.bucket_elements=1000"})},
      {"full_recompute_pp2", pipeline(2, "1f1b", {"recompute.mode=\"full\""})},
      {"selective_recompute_zbv",
       pipeline(2, "zbv", with(kEven4, {"recompute.mode=\"selective\""}))},
      {"full_recompute", {"recompute.mode=\"full\""}},
      {"selective_recompute_mlp", {"recompute.mode=\"selective\"", "recompute.scopes=[\"mlp\"]"}},
      {"full_recompute_tp2_sp",
       {"recompute.mode=\"full\"", "parallel.tensor=2", "parallel.sequence_parallel=true"}},
      {"cpu_1f1b_pp2", pipeline(2, "1f1b", {"device.type=\"cpu\""})},
  };
  return kAll;
}

class PipelineInvariant : public ::testing::TestWithParam<Row> {};

TEST_P(PipelineInvariant, Holds) {
  const Findings found = check_invariant(plugins(), GetParam().sets, kDeep);
  EXPECT_EQ(found.losses, "");
  EXPECT_EQ(found.norms, "");
  EXPECT_EQ(found.gradients, "");
  EXPECT_EQ(found.update, "");
}

INSTANTIATE_TEST_SUITE_P(Rows, PipelineInvariant, ::testing::ValuesIn(rows()), [](const auto& i) {
  return i.param.name;
});

}  // namespace pipeline_invariant_test
}  // namespace tessera::testing

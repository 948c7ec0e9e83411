// Ranks of two hosts train with the bits of one host: rows of experts and what layers wait for go
// to neighbours by one communicator and to others by another, in one collective.
#include <gtest/gtest.h>

#include "replayed_rows_support.hpp"

namespace tessera::testing {
namespace two_hosts_test {

const std::string kRows = "parallel.sequence_parallel=true";
const std::string kGather = "model.block.mlp.dispatcher.type=\"allgather\"";
const std::string kPairs = "schedule.overlap=true";
const std::string kWhole = "graph.type=\"full_iteration\"";
const std::string kDistributed = "optimizer.type=\"distributed\"";
const Sets kEp4 = {"parallel.expert=4"};

struct Row {
  std::string name;
  Sets sets;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

// Ranks 0 and 2 of four share a host, as do 1 and 3.
std::vector<Row> rows() {
  const Sets folded = {"parallel.tensor=2",
                       "parallel.context=2",
                       kRows,
                       "parallel.expert=4",
                       "parallel.expert_tensor=1"};
  return {
      {"moe_ep4", moe(kEp4)},
      {"moe_ep4_allgather", moe(with(kEp4, {kGather}))},
      {"moe_ep2_etp2", moe({"parallel.expert=2", "parallel.expert_tensor=2"})},
      {"moe_tp2_sp_cp2_ep4_etp1", moe(folded)},
      {"moe_tp2_sp_cp2_ep4_etp1_allgather", moe(with(folded, {kGather}))},
      {"moe_ep4_recomputed", moe(with(kEp4, {"recompute.mode=\"full\""}))},
      {"moe_dp4_ep2_distributed", moe({"parallel.data=4", "parallel.expert=2", kDistributed})},
      {"moe_balanced_ep4", moe(with(kBalanced, kEp4))},
      {"moe_ep4_pairs", moe(with(kEp4, {"batch.micro=1", kPairs}))},
      {"moe_ep4_pairs_shared",
       moe(with(kEp4,
                {"batch.micro=1",
                 kPairs,
                 "model.block.mlp.shared_ffn=12",
                 "model.block.mlp.shared_overlap=true"}))},
      {"moe_1f1b_pp2_ep2_pairs", moe(pipeline("1f1b", {"parallel.expert=2", kPairs}))},
      {"moe_zbv_pp2_ep2", moe(pipeline("zbv", with(kFourStages, {"parallel.expert=2"})))},
      {"moe_ep4_graphs", moe(with(kEp4, {"graph.type=\"partial\""}))},
      {"moe_expert_choice_ep4_whole_step", moe(with(kExpertChoice, with(kEp4, {kWhole})))},
      {"moe_padded_ep4_allgather_whole_step", moe(with(kPadded, with(kEp4, {kGather, kWhole})))},
      {"cpu_bf16_moe_ep4", moe(with(kEp4, {"device.type=\"cpu\"", "precision.compute=\"bf16\""}))},
      {"tp4_sp", {"parallel.tensor=4", kRows}},
      {"cp4_ring", {"parallel.context=4"}},
      {"cp4_all_to_all", {"parallel.context=4", "model.block.attention.context=\"all_to_all\""}},
      {"dp4_distributed", {"parallel.data=4", "parallel.bucket_elements=1000", kDistributed}},
  };
}

class TwoHosts : public ::testing::TestWithParam<Row> {};

TEST_P(TwoHosts, HaveTheBitsOfOne) {
  const Sets& sets = GetParam().sets;
  const Training one = train(tiny_config(), sets, {.steps = 3});
  // Runs in order, then delayed and reordered as far as events allow.
  for (const u64 seed : {0, 1}) {
    SCOPED_TRACE(seed);
    const Training two =
        train(tiny_config(), sets, {.steps = 3, .deferred_seed = seed, .two_hosts = true});
    EXPECT_EQ(two.losses, one.losses);
    EXPECT_EQ(two.norms, one.norms);
    EXPECT_TRUE(two.gradients == one.gradients);
    EXPECT_TRUE(two.parameters == one.parameters);
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, TwoHosts, ::testing::ValuesIn(rows()), [](const auto& info) {
  return info.param.name;
});

}  // namespace two_hosts_test
}  // namespace tessera::testing

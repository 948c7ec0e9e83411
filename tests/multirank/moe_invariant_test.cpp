// A mixture of experts trains to one loss curve under any layout. Near ties of two experts flip by
// rounding, so that rows run in double precision; moe_single_precision_test.cpp has rows without.
#include <gtest/gtest.h>

#include <algorithm>

#include "moe_rows_support.hpp"

namespace tessera::testing {
namespace moe_invariant_test {

using namespace moe_rows;

const std::string kCpu = "device.type=\"cpu\"";
const std::string kPairs = "schedule.overlap=true";

const Sets& exact_model() {
  static const Sets kModel =
      with(model(), {"precision.compute=\"fp64\"", "precision.main=\"fp64\""});
  return kModel;
}

// Blocks of two kinds: every other one has experts.
Sets pattern(std::string_view of, const Sets& more = {}) {
  return with({fmt::format("model.pattern=\"{}\"", of),
               "model.blocks.sparse.mlp.top_k=2",
               "model.blocks.dense.mlp.type=\"mlp\"",
               "model.blocks.dense.mlp.ffn=24"},
              more);
}

const Sets kShared = {"model.block.mlp.shared_ffn=12", "model.block.mlp.shared_gate=true"};
const std::string kOverlap = "model.block.mlp.shared_overlap=true";
const std::string kPad = "model.block.mlp.pad_to_capacity=true";
// Two of eight positions for each of eight experts.
const Sets kByWeight = {"model.block.mlp.capacity_factor=1.0"};
const Sets kByPosition = with(kByWeight, {"model.block.mlp.drop=\"position\""});

struct MoeRow {
  std::string name;
  Sets sets;
  Sets model = {};
  bool two_hosts = false;
};

std::vector<MoeRow> rows() {
  const Sets deep = {"model.layers=6", "batch.micro=1"};
  std::vector<MoeRow> all = {
      {"dp2", {"parallel.data=2"}},
      {"dp4_ep2", experts(2, {"parallel.data=4"})},
      {"dp4_ep4", experts(4)},
      {"tp2", kTensor},
      {"tp2_etp1", parts(1, kTensor)},
      {"tp2_ep2_etp1", experts(2, parts(1, kTensor))},
      {"tp2_sp_ep2_etp1", experts(2, parts(1, kTensorRows))},
      {"tp2_sp_ep2", experts(2, kTensorRows)},
      {"cp2_ep2", experts(2, kContext)},
      {"tp2_cp2_ep4_etp1", experts(4, parts(1, with(kTensor, kContext)))},
      {"etp2_ep2", experts(2, parts(2))},
      {"tp1_etp4", parts(4)},
      {"ep_first", experts(2, parts(2, {"parallel.order=\"ep-cp-tp-dp-pp\""}))},
  };
  std::vector<MoeRow> gathered;
  for (const MoeRow& row : all) {
    gathered.push_back({row.name + "_allgather", with(row.sets, {kGather}), row.model});
  }
  all.insert(all.end(), gathered.begin(), gathered.end());
  const std::vector<MoeRow> more = {
      {"micro1", {"batch.micro=1"}},
      {"cp8_ep8", experts(8, {"parallel.context=8"}), {"batch.sequence_length=16"}},
      {"distributed_dp4_ep2", experts(2, {"parallel.data=4", kDistributed})},
      {"distributed_tp2_cp2_ep2_etp1",
       experts(2, parts(1, with(with(kTensor, kContext), {kDistributed})))},
      {"full_recompute_ep2", experts(2, {"recompute.mode=\"full\""})},
      {"selective_recompute_ep2",
       experts(2,
               {"recompute.mode=\"selective\"",
                "recompute.scopes=[\"moe_router\", \"moe_preprocess\", \"moe_experts\"]"})},
      {"graphs_tp2_sp_ep2", experts(2, with(kTensorRows, {"graph.type=\"partial\""}))},
      {"1f1b_pp2_ep2", stages("1f1b", experts(2)), deep},
      {"interleaved_pp2_ep2",
       stages("interleaved_1f1b", experts(2, with(kEven4, {"schedule.chunks=2"}))),
       deep},
      {"zbv_pp2_ep2", stages("zbv", experts(2, kEven4)), deep},
      {"dualpipe_v_pp2_ep2", stages("dualpipe_v", experts(2, kEven4)), deep},
      {"pairs_dp4_ep2", experts(2, {"parallel.data=4", "batch.micro=1", kPairs})},
      {"pairs_tp2_sp_ep2_recomputed",
       experts(2, with(kTensorRows, {"recompute.mode=\"full\"", kPairs}))},
      {"pairs_1f1b_pp2_ep2", stages("1f1b", experts(2, {kPairs})), deep},
      {"pairs_interleaved_pp2_ep2",
       stages("interleaved_1f1b", experts(2, with(kEven4, {"schedule.chunks=2", kPairs}))),
       deep},
      {"pairs_dualpipe_v_pp2_ep2", stages("dualpipe_v", experts(2, with(kEven4, {kPairs}))), deep},
  };
  all.insert(all.end(), more.begin(), more.end());
  const Sets mixed = pattern("dense (dense sparse)*2 sparse", deep);
  const std::vector<MoeRow> blocks = {
      {"pattern_dp4_ep2", experts(2, {"parallel.data=4"}), pattern("dense sparse")},
      {"pattern_tp2_cp2_ep4_etp1",
       experts(4, parts(1, with(kTensor, kContext))),
       pattern("sparse dense")},
      {"pattern_1f1b_pp2_ep2", stages("1f1b", experts(2)), mixed},
      {"pattern_interleaved_pp2_ep2_distributed",
       stages("interleaved_1f1b", experts(2, with(kEven4, {"schedule.chunks=2", kDistributed}))),
       mixed},
      {"pattern_zbv_pp2_tp2_ep2_etp1",
       stages("zbv", experts(2, parts(1, with(kEven4, kTensor)))),
       mixed},
  };
  all.insert(all.end(), blocks.begin(), blocks.end());
  const std::vector<MoeRow> shared = {
      {"shared_tp2", kTensor, kShared},
      {"shared_tp2_sp_ep2", experts(2, kTensorRows), kShared},
      {"shared_geglu_tp2_sp_ep2",
       experts(2, kTensorRows),
       with(kShared, {"model.block.mlp.activation=\"geglu\""})},
      {"shared_overlap_dp4_ep2", experts(2, with({"parallel.data=4"}, {kOverlap})), kShared},
      {"shared_overlap_tp2_sp_ep2_etp1",
       experts(2, parts(1, with(kTensorRows, {kOverlap}))),
       kShared},
      {"shared_overlap_tp2_cp2_ep2_etp2",
       experts(2, parts(2, with(with(kTensor, kContext), {kOverlap}))),
       kShared},
      {"shared_overlap_allgather", experts(2, with(kContext, {kOverlap, kGather})), kShared},
      {"shared_overlap_recomputed",
       experts(2, with({kOverlap}, {"recompute.mode=\"full\""})),
       kShared},
      {"shared_zbv_pp2_ep2",
       stages("zbv", experts(2, with(kEven4, {kOverlap}))),
       with(kShared, deep)},
  };
  all.insert(all.end(), shared.begin(), shared.end());
  for (const auto& [name, model] :
       {std::pair("weight", kByWeight), std::pair("position", kByPosition)}) {
    const std::vector<MoeRow> capacity = {
        {"dp4_ep2", experts(2, {"parallel.data=4"}), {}},
        {"micro1", {"batch.micro=1"}, {}},
        {"tp2", kTensor, {}},
        {"tp2_sp_ep2_etp1", experts(2, parts(1, kTensorRows)), {}},
        {"cp2_ep2", experts(2, kContext), {}},
        {"tp4_micro1", {"parallel.tensor=4", "batch.micro=1"}, {}},
        {"tp2_cp2_ep4_etp1", experts(4, parts(1, with(kTensor, kContext))), {}},
        {"padded_dp4_ep4", experts(4, {kPad}), {}},
        {"padded_tp2_cp2_ep2_etp2",
         experts(2, parts(2, with(with(kTensor, kContext), {kPad}))),
         {}},
        {"padded_allgather", experts(2, parts(2, {kPad, kGather})), {}},
        {"padded_zbv_pp2_ep2", stages("zbv", experts(2, with(kEven4, {kPad}))), deep},
    };
    for (const MoeRow& row : capacity) {
      all.push_back(
          {fmt::format("capacity_by_{}_{}", name, row.name), row.sets, with(model, row.model)});
    }
  }
  for (const char* name : {"dp4_ep4",
                           "tp2_cp2_ep4_etp1",
                           "etp2_ep2",
                           "tp2_cp2_ep4_etp1_allgather",
                           "pairs_1f1b_pp2_ep2"}) {
    MoeRow row = *std::ranges::find(all, name, &MoeRow::name);
    row.name = "two_hosts_" + row.name;
    row.two_hosts = true;
    all.push_back(row);
  }
  return all;
}

class MoeInvariant : public ::testing::TestWithParam<MoeRow> {};

TEST_P(MoeInvariant, Holds) {
  const Findings found = check_invariant(
      plugins(), GetParam().sets, with(exact_model(), GetParam().model), GetParam().two_hosts);
  EXPECT_EQ(found.losses, "");
  EXPECT_EQ(found.norms, "");
  EXPECT_EQ(found.gradients, "");
  EXPECT_EQ(found.update, "");
}

INSTANTIATE_TEST_SUITE_P(Layouts, MoeInvariant, ::testing::ValuesIn(rows()), [](const auto& info) {
  return info.param.name;
});

}  // namespace moe_invariant_test
}  // namespace tessera::testing

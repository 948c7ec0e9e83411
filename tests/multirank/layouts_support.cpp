#include "layouts_support.hpp"

#include <fmt/format.h>

namespace tessera::testing {

namespace {

const std::string kRows = "parallel.sequence_parallel=true";
const std::string kGather = "model.block.attention.context=\"allgather\"";
const std::string kHeads = "model.block.attention.context=\"all_to_all\"";
const std::string kGraphs = "graph.type=\"partial\"";
const std::string kWholeStep = "graph.type=\"full_iteration\"";
const std::string kDistributed = "optimizer.type=\"distributed\"";
const std::string kEightStages = "placement.layout=\"E|t|t|t|t|t|t|L\"";

// Four stages of two layers each.
const Sets kEven4 = {"placement.count_embedding=true", "placement.count_head=true"};

Sets pipeline(int ranks, std::string_view schedule, const Sets& more = {}) {
  return with(
      {fmt::format("parallel.pipeline={}", ranks), fmt::format("schedule.type=\"{}\"", schedule)},
      more);
}

}  // namespace

const std::vector<TableRow>& table_layouts() {
  static const std::vector<TableRow> kAll = {
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
      {"distributed_dp2", {"parallel.data=2", kDistributed}},
      {"distributed_dp8", {"parallel.data=8", "batch.micro=1", kDistributed}},
      {"distributed_tp2_cp2_dp2_sp",
       {"parallel.tensor=2", "parallel.context=2", "parallel.data=2", kRows, kDistributed}},
      {"distributed_buckets", {"parallel.data=2", "parallel.bucket_elements=1000", kDistributed}},
      {"cpu", {"device.type=\"cpu\""}},
      {"cpu_tp2_dp2", {"device.type=\"cpu\"", "parallel.tensor=2", "parallel.data=2"}},
      {"graphs", {kGraphs}},
      {"cpu_graphs_by_chunk_distributed_tp2_dp2_sp",
       {"device.type=\"cpu\"",
        "parallel.tensor=2",
        "parallel.data=2",
        kRows,
        kDistributed,
        kGraphs,
        "graph.join=\"chunk\""}},
      {"whole_step", {kWholeStep}},
      {"cpu_whole_step_distributed_tp2_dp2_sp",
       {"device.type=\"cpu\"",
        "parallel.tensor=2",
        "parallel.data=2",
        kRows,
        kDistributed,
        kWholeStep}},
      {"dp_first", {"parallel.tensor=2", "parallel.data=2", "parallel.order=\"dp-cp-ep-tp-pp\""}},
  };
  return kAll;
}

const Sets& deep_model() {
  static const Sets kDeep = {"model.layers=6", "batch.micro=1"};
  return kDeep;
}

const std::vector<TableRow>& pipeline_layouts() {
  static const std::vector<TableRow> kAll = {
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
      {"whole_step_1f1b_pp2_cp2", pipeline(2, "1f1b", {"parallel.context=2", kWholeStep})},
      {"1f1b_pp2_buckets", pipeline(2, "1f1b", {"parallel.bucket_elements=1000"})},
      {"distributed_1f1b_pp2_dp2",
       pipeline(2, "1f1b", {"parallel.data=2", "parallel.bucket_elements=1000", kDistributed})},
      {"distributed_zbv_pp2_tp2_cp2",
       pipeline(2, "zbv", with(kEven4, {"parallel.tensor=2", "parallel.context=2", kDistributed}))},
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

}  // namespace tessera::testing

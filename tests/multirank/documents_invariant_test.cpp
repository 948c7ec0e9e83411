// Documents of token files train to one loss curve under any layout: kept apart or not, blended,
// packed, in an order of their own or Megatron-LM's.
#include "documents_support.hpp"

namespace tessera::testing {
namespace documents_invariant_test {

using namespace decoder_layouts;
using namespace documents_support;

std::vector<Row> rows() {
  const Sets megatron = with(kApart, {"data.order=\"megatron\""});
  return {{"apart_tp2_sp", with(kTensor, {kRows}), kApart},
          {"apart_cp2_ring", with(kContext, method("ring")), kApart},
          {"apart_cp2_allgather", with(kContext, method("allgather")), kApart},
          {"apart_cp2_all_to_all", with(kContext, method("all_to_all")), kApart},
          {"apart_tp2_cp2_sp", with(with(kTensor, kContext), {kRows}), kApart},
          {"apart_distributed_dp2", kShards, kApart},
          {"apart_interleaved_pp2", kInterleaved, kApart},
          {"apart_recompute", {"recompute.mode=\"full\""}, kApart},
          {"apart_graphs_tp2", with(kTensor, {"graph.type=\"partial\""}), kApart},
          {"apart_whole_step", {"graph.type=\"full_iteration\""}, kApart},
          {"apart_ahead_cp2",
           kContext,
           with(kApart,
                {"model.predict_ahead.type=\"multi_token_prediction\"",
                 "model.predict_ahead.layers=1"})},
          {"unseen_cp2", kContext, kUnseen},
          {"unseen_tp2_sp", with(kTensor, {kRows}), kUnseen},
          {"packed_cp2", kContext, kPacked},
          {"packed_interleaved_pp2", kInterleaved, kPacked},
          {"blend_cp2", kContext, blend()},
          {"blend_dp2", {"parallel.data=2"}, blend()},
          {"megatron_tp2_cp2", with(kTensor, kContext), megatron},
          {"cpu_apart_cp2", with(kContext, {"device.type=\"cpu\""}), kApart}};
}

class DocumentLayouts : public ::testing::TestWithParam<Row> {};

TEST_P(DocumentLayouts, HaveOneLossCurve) {
  const Row& row = GetParam();
  expect_one_loss_curve(decoder(row.model), {row.name, row.sets});
}

INSTANTIATE_TEST_SUITE_P(Layouts, DocumentLayouts, ::testing::ValuesIn(rows()), name_of);

}  // namespace documents_invariant_test
}  // namespace tessera::testing

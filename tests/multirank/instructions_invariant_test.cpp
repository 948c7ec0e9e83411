// Prompts and answers train to one loss curve under any layout, one a sample or packed.
#include "documents_support.hpp"

namespace tessera::testing {
namespace instructions_invariant_test {

using namespace decoder_layouts;
using namespace documents_support;

std::vector<Row> rows() {
  const Sets packed = answers("examples"), alone = answers("none");
  return {{"packed_tp2_sp", with(kTensor, {kRows}), packed},
          {"packed_cp2_ring", with(kContext, method("ring")), packed},
          {"packed_cp2_allgather", with(kContext, method("allgather")), packed},
          {"packed_cp2_all_to_all", with(kContext, method("all_to_all")), packed},
          {"packed_tp2_cp2_sp", with(with(kTensor, kContext), {kRows}), packed},
          {"packed_distributed_dp2", kShards, packed},
          {"packed_interleaved_pp2", kInterleaved, packed},
          {"packed_recompute", {"recompute.mode=\"full\""}, packed},
          {"packed_graphs_tp2", with(kTensor, {"graph.type=\"partial\""}), packed},
          {"packed_whole_step", {"graph.type=\"full_iteration\""}, packed},
          {"alone_tp2_cp2", with(kTensor, kContext), alone},
          {"alone_dp2", {"parallel.data=2"}, alone},
          {"alone_interleaved_pp2", kInterleaved, alone}};
}

class InstructionLayouts : public ::testing::TestWithParam<Row> {};

TEST_P(InstructionLayouts, HaveOneLossCurve) {
  const Row& row = GetParam();
  expect_one_loss_curve(decoder(row.model), {row.name, row.sets});
}

INSTANTIATE_TEST_SUITE_P(Layouts, InstructionLayouts, ::testing::ValuesIn(rows()), name_of);

}  // namespace instructions_invariant_test
}  // namespace tessera::testing

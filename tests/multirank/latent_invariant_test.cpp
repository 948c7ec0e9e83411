// A decoder with latent attention, as DeepSeek has it, trains to one loss curve under any layout.
#include "decoder_layouts_support.hpp"

namespace tessera::testing {
namespace latent_invariant_test {

using namespace decoder_layouts;

// Values narrower than keys, and a latent of queries.
const Sets& latent() {
  static const Sets kModel = {"model.embedding.learned_positions=false",
                              "model.block.norm.type=\"rmsnorm\"",
                              "model.head.norm.type=\"rmsnorm\"",
                              "model.block.attention.type=\"latent_attention\"",
                              "model.block.attention.q_latent=10",
                              "model.block.attention.kv_latent=8",
                              "model.block.attention.fixed_size=6",
                              "model.block.attention.rotary_size=4",
                              "model.block.attention.value_size=5",
                              "model.block.attention.rotary.interleaved=true",
                              "model.block.attention.q_up.bias=false",
                              "model.block.attention.kv_up.bias=false",
                              "model.block.attention.proj.bias=false",
                              "model.block.mlp.type=\"gated_mlp\"",
                              "model.block.mlp.ffn=24"};
  return kModel;
}
// Queries of hidden features, wider values, a stretched table, a window.
const Sets kOther = {"model.block.attention.q_latent=\"none\"",
                     "model.block.attention.value_size=14",
                     "model.block.attention.score_factor=1.3",
                     "model.block.attention.window=5",
                     "model.block.attention.kv_down.bias=true",
                     "model.block.attention.rotary.interleaved=false",
                     "model.block.attention.rotary.type=\"yarn\"",
                     "model.block.attention.rotary.factor=4.0",
                     "model.block.attention.rotary.original_positions=8"};

std::vector<Row> rows() {
  return {{"tp2", kTensor},
          {"tp2_sp", with(kTensor, {kRows})},
          {"tp2_sp_other", with(kTensor, {kRows}), kOther},
          {"cp2_ring", with(kContext, method("ring"))},
          {"cp2_allgather", with(kContext, method("allgather"))},
          {"cp2_all_to_all", with(kContext, method("all_to_all"))},
          {"cp2_other", kContext, kOther},
          {"tp2_cp2_sp", with(with(kTensor, kContext), {kRows})},
          {"distributed_dp2", {"parallel.data=2", "optimizer.type=\"distributed\""}},
          {"interleaved_pp2",
           {"parallel.pipeline=2",
            "schedule.type=\"interleaved_1f1b\"",
            "schedule.chunks=2",
            "placement.layout=\"E|t|t|L\""}},
          {"recompute", {"recompute.mode=\"full\""}},
          {"graphs_tp2", with(kTensor, {"graph.type=\"partial\""})},
          {"whole_step", {"graph.type=\"full_iteration\""}},
          {"cpu_tp2_sp", with(kTensor, {kRows, "device.type=\"cpu\""})},
          {"cpu_cp2_other", with(kContext, {"device.type=\"cpu\""}), kOther}};
}

class LatentDecoder : public ::testing::TestWithParam<Row> {};

TEST_P(LatentDecoder, HasOneLossCurve) { expect_one_loss_curve(latent(), GetParam()); }

INSTANTIATE_TEST_SUITE_P(Layouts, LatentDecoder, ::testing::ValuesIn(rows()), name_of);

class LatentDecoderIn16Bits : public ::testing::TestWithParam<Row> {};

TEST_P(LatentDecoderIn16Bits, IsAsNearAsOneRank) {
  expect_as_near_as_one_rank(latent(), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Layouts,
                         LatentDecoderIn16Bits,
                         ::testing::Values(Row{"tp2_sp", with(kTensor, {kRows})},
                                           Row{"cp2", kContext},
                                           Row{"cp2_other", kContext, kOther}),
                         name_of);

}  // namespace latent_invariant_test
}  // namespace tessera::testing

// A decoder as Llama has it (rotary positions, grouped queries, SwiGLU, RMSNorm, no biases) trains
// to one loss curve under any layout.
#include "decoder_layouts_support.hpp"

namespace tessera::testing {
namespace decoder_invariant_test {

using namespace decoder_layouts;

const Sets kStages = {"parallel.pipeline=2", "schedule.type=\"1f1b\""};

const Sets& llama() {
  static const Sets kModel = {"model.embedding.learned_positions=false",
                              "model.block.norm.type=\"rmsnorm\"",
                              "model.head.norm.type=\"rmsnorm\"",
                              "model.block.attention.rotary.type=\"default\"",
                              "model.block.attention.kv_heads=2",
                              "model.block.attention.qkv.bias=false",
                              "model.block.attention.proj.bias=false",
                              "model.block.mlp.type=\"gated_mlp\"",
                              "model.block.mlp.ffn=24",
                              "model.block.mlp.up.bias=false",
                              "model.block.mlp.down.bias=false",
                              "model.tied_embeddings=false"};
  return kModel;
}
// Pairs of neighbours, some features of wider heads, a stretched table, norms of each head.
const Sets kOther = {"model.block.attention.head_size=10",
                     "model.block.attention.rotary.type=\"yarn\"",
                     "model.block.attention.rotary.factor=4.0",
                     "model.block.attention.rotary.original_positions=8",
                     "model.block.attention.rotary.fraction=0.6",
                     "model.block.attention.q_norm.type=\"rmsnorm\"",
                     "model.block.attention.k_norm.type=\"layernorm\"",
                     "model.block.attention.rotary.interleaved=true"};

// Fewer keys than a chunk of positions has, than a rank has, and more.
Sets window(i64 keys) { return {fmt::format("model.block.attention.window={}", keys)}; }
const Sets kGeglu = {"model.block.mlp.activation=\"geglu\""};

std::vector<Row> rows() {
  return {{"tp2", kTensor},
          {"tp2_sp", with(kTensor, {kRows})},
          {"cp2_ring", with(kContext, method("ring"))},
          {"cp2_allgather", with(kContext, method("allgather"))},
          {"cp2_all_to_all", with(kContext, method("all_to_all"))},
          {"cp2_other", kContext, kOther},
          {"tp2_other", kTensor, kOther},
          {"tp2_sp_other", with(kTensor, {kRows}), kOther},
          {"tp2_cp2_sp", with(with(kTensor, kContext), {kRows})},
          {"distributed_dp2", {"parallel.data=2", "optimizer.type=\"distributed\""}},
          {"pp2", kStages},
          {"pp2_other", kStages, kOther},
          {"interleaved_pp2",
           {"parallel.pipeline=2",
            "schedule.type=\"interleaved_1f1b\"",
            "schedule.chunks=2",
            "placement.layout=\"E|t|t|L\""}},
          {"recompute", {"recompute.mode=\"full\""}},
          {"graphs_tp2", with(kTensor, {"graph.type=\"partial\""})},
          {"whole_step", {"graph.type=\"full_iteration\""}},
          {"window_tp2_sp", with(kTensor, {kRows}), window(3)},
          {"window_cp2_ring", with(kContext, method("ring")), window(3)},
          {"window_cp2_allgather", with(kContext, method("allgather")), window(5)},
          {"window_cp2_all_to_all", with(kContext, method("all_to_all")), window(2)},
          {"window_cp4", {"parallel.context=4"}, window(3)},
          {"window_pp2", kStages, window(3)},
          {"window_recompute", {"recompute.mode=\"full\""}, window(3)},
          {"window_graphs", {"graph.type=\"partial\""}, window(3)},
          {"window_cpu_cp2", with(kContext, {"device.type=\"cpu\""}), window(5)},
          {"tp2_sp_geglu", with(kTensor, {kRows}), kGeglu},
          {"cpu_pp2_geglu", with(kStages, {"device.type=\"cpu\""}), kGeglu},
          {"cpu_tp2_sp", with(kTensor, {kRows, "device.type=\"cpu\""})},
          {"cpu_cp2_other", with(kContext, {"device.type=\"cpu\""}), kOther}};
}

class Decoder : public ::testing::TestWithParam<Row> {};

TEST_P(Decoder, HasOneLossCurve) { expect_one_loss_curve(llama(), GetParam()); }

INSTANTIATE_TEST_SUITE_P(Layouts, Decoder, ::testing::ValuesIn(rows()), name_of);

class DecoderIn16Bits : public ::testing::TestWithParam<Row> {};

TEST_P(DecoderIn16Bits, IsAsNearAsOneRank) { expect_as_near_as_one_rank(llama(), GetParam()); }

INSTANTIATE_TEST_SUITE_P(Layouts,
                         DecoderIn16Bits,
                         ::testing::Values(Row{"tp2_sp", with(kTensor, {kRows})},
                                           Row{"cp2", kContext},
                                           Row{"cp2_other", kContext, kOther},
                                           Row{"window_cp2", kContext, window(3)}),
                         name_of);

}  // namespace decoder_invariant_test
}  // namespace tessera::testing

// Documents of token files train to one loss curve under any layout: kept apart or not, blended,
// packed, in an order of their own or Megatron-LM's.
#include "decoder_layouts_support.hpp"
#include "tessera/io/token_file.hpp"
#include "tessera/random.hpp"
#include "tests/common/test_folder.hpp"

namespace tessera::testing {
namespace documents_invariant_test {

using namespace decoder_layouts;

// Two corpora of short documents whose letters follow each other in a way that can be learned.
std::string corpus(std::string_view name) {
  static const TestFolder kFolder;
  static const bool kWritten = [] {
    for (const auto& [prefix, step] : {std::pair("a", 3), std::pair("b", 5)}) {
      TokenFileWriter writer(kFolder.at(prefix), TokenType::u16);
      for (u32 document = 0; document < 700; ++document) {
        const Philox::Words words = Philox::words(9, {document, static_cast<u32>(step)});
        std::vector<i32> ids;
        for (u32 i = 0; i < words[0] % 11; ++i) {
          ids.push_back(static_cast<i32>('a' + (words[1] + i * static_cast<u32>(step)) % 26));
        }
        ids.push_back('.');
        writer.add(ids);
        writer.end_document();
      }
      writer.finish("");
    }
    return true;
  }();
  (void)kWritten;
  return kFolder.at(name);
}

Sets decoder(const Sets& data) {
  Sets sets = {"model.embedding.learned_positions=false",
               "model.block.norm.type=\"rmsnorm\"",
               "model.head.norm.type=\"rmsnorm\"",
               "model.block.attention.kv_heads=2",
               "model.block.attention.rotary.type=\"default\"",
               "data.type=\"indexed\"",
               fmt::format("data.path=[\"{}\"]", corpus("a"))};
  return with(std::move(sets), data);
}

const Sets kApart = {
    "data.reset_positions=true", "data.reset_attention=true", "data.mask_eod_loss=true"};
const Sets kUnseen = {"data.reset_attention=true", "data.mask_eod_loss=true"};
const Sets kPacked = {
    "data.reset_positions=true", "data.reset_attention=true", "data.pack=\"documents\""};
const Sets kMegatron = with(kApart, {"data.order=\"megatron\""});
Sets blend() {
  return with(
      kApart,
      {fmt::format("data.path=[\"0.3\", \"{}\", \"0.7\", \"{}\"]", corpus("a"), corpus("b"))});
}

std::vector<Row> rows() {
  const Sets interleaved = {"parallel.pipeline=2",
                            "schedule.type=\"interleaved_1f1b\"",
                            "schedule.chunks=2",
                            "placement.layout=\"E|t|t|L\""};
  return {{"apart_tp2_sp", with(kTensor, {kRows}), kApart},
          {"apart_cp2_ring", with(kContext, method("ring")), kApart},
          {"apart_cp2_allgather", with(kContext, method("allgather")), kApart},
          {"apart_cp2_all_to_all", with(kContext, method("all_to_all")), kApart},
          {"apart_tp2_cp2_sp", with(with(kTensor, kContext), {kRows}), kApart},
          {"apart_distributed_dp2", {"parallel.data=2", "optimizer.type=\"distributed\""}, kApart},
          {"apart_interleaved_pp2", interleaved, kApart},
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
          {"packed_interleaved_pp2", interleaved, kPacked},
          {"blend_cp2", kContext, blend()},
          {"blend_dp2", {"parallel.data=2"}, blend()},
          {"megatron_tp2_cp2", with(kTensor, kContext), kMegatron},
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

// BERT trains to one loss curve under any layout: norms before and after sub-layers, masked words
// and sentence order, samples that are half padding.
#include "bert_samples_support.hpp"

namespace tessera::testing {
namespace bert_invariant_test {

using namespace decoder_layouts;
using namespace bert_samples;

const Sets kInterleaved = {"parallel.pipeline=2",
                           "schedule.type=\"interleaved_1f1b\"",
                           "schedule.chunks=2",
                           "placement.layout=\"E|t|t|L\""};
const Sets kZbv = {"parallel.pipeline=2", "schedule.type=\"zbv\"", "placement.layout=\"E|t|t|L\""};
const Sets kShards = {"parallel.data=2", "optimizer.type=\"distributed\""};

std::vector<Row> rows() {
  std::vector<Row> all;
  for (const std::string order : {"pre", "post"}) {
    const auto add = [&](const std::string& name, const Sets& sets, const Sets& more = {}) {
      all.push_back({order + "_" + name, sets, bert(order, more)});
    };
    add("tp2", kTensor, kPadded);
    add("tp2_sp", with(kTensor, {kRows}), kPadded);
    add("tp4_sp", {"parallel.tensor=4", kRows});
    add("cp2_ring", with(kContext, method("ring")), kPadded);
    add("cp2_allgather", with(kContext, method("allgather")), kPadded);
    add("cp2_all_to_all", with(kContext, method("all_to_all")), kPadded);
    add("tp2_cp2_sp", with(with(kTensor, kContext), {kRows}), kPadded);
    add("dp2_distributed", kShards, kPadded);
    add("interleaved_pp2", kInterleaved, kPadded);
    add("zbv_pp2_tp2_sp", with(with(kZbv, kTensor), {kRows}));
    add("recompute", {"recompute.mode=\"full\""}, kPadded);
    add("graphs_tp2", with(kTensor, {"graph.type=\"partial\""}), kPadded);
    add("whole_step", {"graph.type=\"full_iteration\""}, kPadded);
    add("cpu_tp2_cp2", with(with(kTensor, kContext), {"device.type=\"cpu\""}), kPadded);
  }
  return all;
}

// Heads that a model is fine-tuned with. A choice begins on each context-parallel rank.
std::vector<Row> heads() {
  const Sets layouts[] = {with(kTensor, {kRows}),
                          with(kContext, method("ring")),
                          with(kContext, method("allgather")),
                          with(kContext, method("all_to_all")),
                          with(kTensor, kContext),
                          {"parallel.context=4"},
                          kInterleaved,
                          with(kZbv, kTensor),
                          kShards,
                          {"recompute.mode=\"full\""},
                          with(kTensor, {"graph.type=\"partial\""}),
                          {"graph.type=\"full_iteration\""}};
  const char* names[] = {"tp2_sp",
                         "cp2_ring",
                         "cp2_allgather",
                         "cp2_all_to_all",
                         "tp2_cp2",
                         "cp4",
                         "interleaved_pp2",
                         "zbv_pp2_tp2",
                         "dp2_distributed",
                         "recompute",
                         "graphs_tp2",
                         "whole_step"};
  std::vector<Row> all;
  for (const std::string goal : {"label", "choice", "span"}) {
    const std::string head = goal == "label" ? "classification" : goal;
    Sets model = bert(goal == "span" ? "pre" : "post",
                      {fmt::format("data.goal=\"{}\"", goal),
                       fmt::format("model.head.type=\"{}_head\"", head),
                       "model.head.init_std=0.3"});
    if (goal == "label") model.push_back("model.head.classes=3");
    if (goal != "choice") model = with(model, kPadded);
    for (std::size_t i = 0; i < std::size(names); ++i) {
      all.push_back({fmt::format("{}_{}", goal, names[i]), layouts[i], model});
    }
  }
  return all;
}

class BertLayouts : public ::testing::TestWithParam<Row> {};

TEST_P(BertLayouts, HaveOneLossCurve) {
  const Row& row = GetParam();
  expect_one_loss_curve(row.model, {row.name, row.sets});
}

INSTANTIATE_TEST_SUITE_P(Layouts, BertLayouts, ::testing::ValuesIn(rows()), name_of);

INSTANTIATE_TEST_SUITE_P(Heads, BertLayouts, ::testing::ValuesIn(heads()), name_of);

class BertNarrow : public ::testing::TestWithParam<Row> {};

TEST_P(BertNarrow, IsAsNearAsOneRank) {
  const Row& row = GetParam();
  const Findings found =
      check_narrow(plugins(), {row.name.substr(0, 4), "cpu"}, row.sets, Rounding::other, row.model);
  EXPECT_TRUE(found.none()) << text(found);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts,
    BertNarrow,
    ::testing::Values(Row{"bf16_tp2_cp2", with(kTensor, kContext), bert("post", kPadded)},
                      Row{"bf16_dp2", kShards, bert("pre", kPadded)},
                      Row{"fp16_tp2_sp", with(kTensor, {kRows}), bert("post", kPadded)}),
    name_of);

TEST(Bert, ASampleHasTheSameLossWhateverItsPadding) {
  const auto run = [](int positions) {
    return train(tiny_config(),
                 bert("post",
                      {fmt::format("batch.sequence_length={}", positions),
                       "model.positions=64",
                       "model.head.predictions=8",
                       "data.longest=32",
                       "model.dropout=0.0",
                       "precision.compute=\"fp64\"",
                       "precision.main=\"fp64\""}),
                 {.steps = 3});
  };
  const Training narrow = run(32), wide = run(64);
  EXPECT_EQ(difference(wide.losses, narrow.losses, 1e-12, "loss"), "");
  EXPECT_EQ(difference(wide.norms, narrow.norms, 1e-12, "norm"), "");
  for (const auto& [name, gradient] : narrow.gradients) {
    EXPECT_LT(rms(gradient, wide.gradients.at(name)), 1e-14) << name;
  }
}

std::string why_not(const Sets& sets) {
  try {
    train(tiny_config(), sets, {.steps = 1});
  } catch (const std::exception& error) {
    return error.what();
  }
  return "it trained";
}

TEST(Bert, AClassThatTheHeadDoesNotHaveEndsTheRun) {
  const Sets sets = bert(
      "pre",
      {"data.goal=\"label\"", "model.head.type=\"classification_head\"", "model.head.classes=2"});
  EXPECT_NE(why_not(sets).find(" has 2 in \"label\", whose values are 0 to 1 (classes)"),
            std::string::npos)
      << why_not(sets);
}

TEST(Bert, APositionThatTheModelDoesNotKnowEndsTheRun) {
  const auto choices = [](int positions) {
    return bert("post",
                {"data.goal=\"choice\"",
                 "model.head.type=\"choice_head\"",
                 fmt::format("model.positions={}", positions)});
  };
  EXPECT_EQ(why_not(choices(4)), "it trained");  // those of a choice, of which a sample has four
  EXPECT_NE(
      why_not(choices(3)).find(" has 3 in \"positions\", whose values are 0 to 2 (positions)"),
      std::string::npos)
      << why_not(choices(3));
}

TEST(Bert, DataMustHaveTheChoicesAndSegmentsOfTheModel) {
  const Sets choices = bert("post", {"data.goal=\"choice\"", "model.head.type=\"choice_head\""});
  EXPECT_NE(why_not(with(choices, {"model.head.choices=8"})).find("in \"positions\", whose values"),
            std::string::npos);
  const std::string why = why_not(bert("post", {"model.embedding.segments=1"}));
  EXPECT_NE(why.find(" has 1 in \"segments\", whose values are 0 to 0 (segments)"),
            std::string::npos)
      << why;
}

TEST(Bert, MoreMaskedTokensThanThereIsRoomForEndTheRun) {
  const std::string why = why_not(bert("pre", {"model.head.predictions=1"}));
  EXPECT_NE(why.find("values of 1 in \"loss_mask\"; predictions = 1 has room for no more"),
            std::string::npos)
      << why;
}

}  // namespace bert_invariant_test
}  // namespace tessera::testing

// A mixture of experts in bf16 and fp16 under any layout: one loss curve, up to what 16-bit
// roundings do, in a training where these decide no choice.
#include <gtest/gtest.h>

#include "moe_rows_support.hpp"
#include "router_gaps_support.hpp"

namespace tessera::testing {
namespace moe_precision_test {

using namespace moe_rows;

// Logits have 16 bits, too, so that the gaps of random rows are no wider than roundings: in the
// trainings of single precision some are 0. Here the choices of all rows are few. They follow from
// a token and its position, whose embeddings, large and without dropout, outweigh what attention
// adds before the only layer with experts. Under this seed they are far apart; of 250 seeds four
// have a ratio above kLeastRatio.
const Sets& clear_model() {
  static const Sets kModel = with(model(),
                                  {"run.seed=202",
                                   "batch.sequence_length=4",
                                   "model.tied_embeddings=false",
                                   "model.embedding.dropout=0.0",
                                   "model.embedding.init_std=1.0",
                                   "model.block.mlp.experts=4",
                                   "model.block.mlp.router.init_std=0.5",
                                   "model.pattern=\"sparse dense\"",
                                   "model.blocks.sparse.mlp.top_k=2",
                                   "model.blocks.dense.mlp.type=\"mlp\""});
  return kModel;
}

// The least ratio of a gap to the noise of its scores. A layout may be twice as far from one rank
// as that is from fp32, and both scores of a gap may move.
constexpr double kLeastRatio = 4;

struct Row {
  std::string name;
  Sets sets;
  Rounding rounding;
};

// Roundings are the same where all 16-bit values are: where ranks have other sequences, layers or
// experts. A row crosses to its experts and back as it is, its product has the same terms whatever
// rows are beside it, and a token adds up two results, which is one rounding wherever it happens,
// also in the sums of `allgather`. Gradients of parameters are in fp32. Roundings are others where
// ranks add up 16-bit parts of a row (tensor ranks, parts of experts) or of its attention (context
// ranks), and with other microbatches: these change the shapes of all products, and a library may
// choose another order of sums for them.
const std::vector<Row>& rows() {
  const std::string recompute = "recompute.mode=\"full\"";
  const Sets four = {"placement.layout=\"E|t|t|L\""};
  static const std::vector<Row> kAll = {
      {"dp2", {"parallel.data=2"}, Rounding::same},
      {"dp4_ep2", experts(2, {"parallel.data=4"}), Rounding::same},
      {"dp4_ep4", experts(4), Rounding::same},
      {"dp4_ep2_allgather", experts(2, {"parallel.data=4", kGather}), Rounding::same},
      {"distributed_dp4_ep2", experts(2, {"parallel.data=4", kDistributed}), Rounding::same},
      {"recompute_ep2", experts(2, {recompute}), Rounding::same},
      {"1f1b_pp2_ep2", stages("1f1b", experts(2)), Rounding::same},
      {"zbv_pp2_ep2", stages("zbv", experts(2, four)), Rounding::same},
      {"micro1", {"batch.micro=1"}, Rounding::other},
      {"etp2_ep2", experts(2, parts(2)), Rounding::other},
      {"tp2_sp_ep2", experts(2, kTensorRows), Rounding::other},
      {"tp2_ep2_etp1", experts(2, parts(1, kTensor)), Rounding::other},
      {"cp2_ep2", experts(2, kContext), Rounding::other},
      {"tp2_cp2_ep4_etp1", experts(4, parts(1, with(kTensor, kContext))), Rounding::other},
      {"distributed_pp2_tp2_sp_ep2_etp1",
       stages("1f1b", experts(2, parts(1, with(kTensorRows, {kDistributed})))),
       Rounding::other},
  };
  return kAll;
}

const std::vector<Narrow>& all_narrow() {
  static const std::vector<Narrow> kAll = {
      {"bf16", "reference"}, {"fp16", "reference"}, {"bf16", "cpu"}, {"fp16", "cpu"}};
  return kAll;
}

std::string name_of(const Narrow& narrow) { return narrow.device + "_" + narrow.compute; }

RouterGaps gaps(const Narrow& narrow) {
  return router_gaps(with(clear_model(), in_16_bits(narrow)), clear_model());
}

struct Case {
  Row row;
  Narrow narrow;
};
void PrintTo(const Case& of, std::ostream* out) { *out << of.row.name; }

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Narrow& narrow : all_narrow()) {
    for (const Row& row : rows()) all.push_back({row, narrow});
  }
  return all;
}

class MoePrecision : public ::testing::TestWithParam<Case> {};

TEST_P(MoePrecision, Holds) {
  const auto& [row, narrow] = GetParam();
  const Findings found = check_narrow(plugins(), narrow, row.sets, row.rounding, clear_model());
  EXPECT_TRUE(found.none()) << text(found) << "\n" << text(gaps(narrow));
}

INSTANTIATE_TEST_SUITE_P(Rows, MoePrecision, ::testing::ValuesIn(cases()), [](const auto& info) {
  return name_of(info.param.narrow) + "_" + info.param.row.name;
});

class MoePrecisionGaps : public ::testing::TestWithParam<Narrow> {};

TEST_P(MoePrecisionGaps, AreWiderThanRoundings) {
  const RouterGaps found = gaps(GetParam());
  fmt::print("{}\n", text(found));
  RecordProperty("smallest_gap", fmt::format("{:.3g}", found.smallest));
  RecordProperty("least_ratio", fmt::format("{:.3g}", found.ratio));
  EXPECT_GE(found.ratio, kLeastRatio) << text(found);
}

INSTANTIATE_TEST_SUITE_P(Devices,
                         MoePrecisionGaps,
                         ::testing::ValuesIn(all_narrow()),
                         [](const auto& info) { return name_of(info.param); });

}  // namespace moe_precision_test
}  // namespace tessera::testing

// A mixture of experts trains to one loss curve under any layout. Near ties of two experts flip by
// rounding, so that rows run in double precision; and in single precision on a training without.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "kernel/model/host_values.hpp"
#include "layouts_support.hpp"
#include "tessera/error.hpp"
#include "tessera/moe_ops.hpp"
#include "tessera/router.hpp"

namespace tessera::testing {
namespace moe_invariant_test {

const std::string kRows = "parallel.sequence_parallel=true";
const std::string kGather = "model.block.mlp.dispatcher.type=\"allgather\"";
const std::string kCpu = "device.type=\"cpu\"";
const std::string kDistributed = "optimizer.type=\"distributed\"";
const std::string kPairs = "schedule.overlap=true";

const Sets& single_model() {
  static const Sets kModel = {"model.block.mlp.type=\"moe\"",
                              "model.block.mlp.experts=8",
                              "model.block.mlp.ffn=8",
                              "model.block.mlp.init_std=0.5"};  // so that experts are heard
  return kModel;
}

const Sets& moe_model() {
  static const Sets kModel =
      with(single_model(), {"precision.compute=\"fp64\"", "precision.main=\"fp64\""});
  return kModel;
}

Sets experts(int ranks, const Sets& more = {}) {
  return with({fmt::format("parallel.expert={}", ranks)}, more);
}
Sets parts(int ranks, const Sets& more = {}) {
  return with({fmt::format("parallel.expert_tensor={}", ranks)}, more);
}
const Sets kTensor = {"parallel.tensor=2"}, kContext = {"parallel.context=2"};
const Sets kTensorRows = {"parallel.tensor=2", kRows};

// Four stages of two layers each.
Sets pipeline(std::string_view schedule, const Sets& more) {
  return with({"parallel.pipeline=2", fmt::format("schedule.type=\"{}\"", schedule)}, more);
}
const Sets kEven4 = {"placement.count_embedding=true", "placement.count_head=true"};

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
      {"1f1b_pp2_ep2", pipeline("1f1b", experts(2)), deep},
      {"interleaved_pp2_ep2",
       pipeline("interleaved_1f1b", experts(2, with(kEven4, {"schedule.chunks=2"}))),
       deep},
      {"zbv_pp2_ep2", pipeline("zbv", experts(2, kEven4)), deep},
      {"dualpipe_v_pp2_ep2", pipeline("dualpipe_v", experts(2, kEven4)), deep},
      {"pairs_dp4_ep2", experts(2, {"parallel.data=4", "batch.micro=1", kPairs})},
      {"pairs_tp2_sp_ep2_recomputed",
       experts(2, with(kTensorRows, {"recompute.mode=\"full\"", kPairs}))},
      {"pairs_1f1b_pp2_ep2", pipeline("1f1b", experts(2, {kPairs})), deep},
      {"pairs_interleaved_pp2_ep2",
       pipeline("interleaved_1f1b", experts(2, with(kEven4, {"schedule.chunks=2", kPairs}))),
       deep},
      {"pairs_dualpipe_v_pp2_ep2",
       pipeline("dualpipe_v", experts(2, with(kEven4, {kPairs}))),
       deep},
  };
  all.insert(all.end(), more.begin(), more.end());
  const Sets mixed = pattern("dense (dense sparse)*2 sparse", deep);
  const std::vector<MoeRow> blocks = {
      {"pattern_dp4_ep2", experts(2, {"parallel.data=4"}), pattern("dense sparse")},
      {"pattern_tp2_cp2_ep4_etp1",
       experts(4, parts(1, with(kTensor, kContext))),
       pattern("sparse dense")},
      {"pattern_1f1b_pp2_ep2", pipeline("1f1b", experts(2)), mixed},
      {"pattern_interleaved_pp2_ep2_distributed",
       pipeline("interleaved_1f1b", experts(2, with(kEven4, {"schedule.chunks=2", kDistributed}))),
       mixed},
      {"pattern_zbv_pp2_tp2_ep2_etp1",
       pipeline("zbv", experts(2, parts(1, with(kEven4, kTensor)))),
       mixed},
  };
  all.insert(all.end(), blocks.begin(), blocks.end());
  const std::vector<MoeRow> shared = {
      {"shared_tp2", kTensor, kShared},
      {"shared_tp2_sp_ep2", experts(2, kTensorRows), kShared},
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
       pipeline("zbv", experts(2, with(kEven4, {kOverlap}))),
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
        {"padded_zbv_pp2_ep2", pipeline("zbv", experts(2, with(kEven4, {kPad}))), deep},
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
      plugins(), GetParam().sets, with(moe_model(), GetParam().model), GetParam().two_hosts);
  EXPECT_EQ(found.losses, "");
  EXPECT_EQ(found.norms, "");
  EXPECT_EQ(found.gradients, "");
  EXPECT_EQ(found.update, "");
}

INSTANTIATE_TEST_SUITE_P(Layouts, MoeInvariant, ::testing::ValuesIn(rows()), [](const auto& info) {
  return info.param.name;
});

// --- in single precision, where no two scores nearly tie ---

constexpr double kLeastGap = 1e-4;

// The router top_k, which notes the smallest gap between the score of a row's last choice and the
// next one. One rank at a time.
class GapRouter final : public Router {
 public:
  struct Config {
    i64 hidden = 0, experts = 0, top_k = 0;
    double init_std = 0.02;
    static void describe(Schema<Config>& s) {
      s.field("hidden", &Config::hidden, "features").given();
      s.field("experts", &Config::experts, "experts").given();
      s.field("top_k", &Config::top_k, "choices").given();
      s.field("init_std", &Config::init_std, "as top_k").from("model.init_std");
    }
  };
  GapRouter(const Config& config, BuildContext& build)
      : spec_{.top_k = config.top_k},
        weight_(build.parameter({.name = "weight",
                                 .shape = {config.experts, config.hidden},
                                 .init = Init::gaussian(config.init_std),
                                 .placement = build.tensor_region().per_split_row()})) {}
  Routing operator()(Context& cx, Bundle&, const Tensor& x) const override {
    const Tensor logits = ops::linear(cx, x, weight_, nullptr);
    const std::vector<double> values = read_values(*cx.device, logits);
    const auto width = static_cast<std::ptrdiff_t>(logits.dim(1));
    for (auto row = values.begin(); row != values.end(); row += width) {
      std::vector<double> scores(row, row + width);
      std::ranges::sort(scores, std::greater());
      const auto k = static_cast<std::size_t>(spec_.top_k);
      smallest() = std::min(smallest(), scores[k - 1] - scores[k]);
    }
    const ops::Routed routed = ops::topk_router(cx, logits, {}, spec_);
    return {routed.experts, routed.weights, logits};
  }
  static double& smallest() {
    static double gap = 0;
    return gap;
  }

 private:
  RouterSpec spec_;
  Parameter& weight_;
};

// The smallest gap of one rank's steps.
double smallest_gap(const Sets& model) {
  static const std::unique_ptr<PluginHost> kHost = [] {
    auto loaded = load_plugins();
    loaded->add_builtin([](Registrar& registrar) {
      registrar.add<Router, GapRouter>("gap", "top_k, and the smallest gap between scores");
    });
    return loaded;
  }();
  GapRouter::smallest() = std::numeric_limits<double>::infinity();
  const Sets sets = with(model, {"model.block.mlp.router.type=\"gap\""});
  const Training run = train(tiny_config(), sets, {.steps = kTableSteps, .host = kHost.get()});
  EXPECT_EQ(run.losses, one_rank(kTableSteps, model).losses) << "the gap of another training";
  return GapRouter::smallest();
}

// The first seed under which no row of the training has two scores that nearly tie.
const Sets& untied_model() {
  static const Sets kModel = [] {
    for (int seed = 1; seed <= 32; ++seed) {
      // Larger weights of the router pull its scores apart.
      const Sets model =
          with(single_model(),
               {fmt::format("run.seed={}", seed), "model.block.mlp.router.init_std=0.5"});
      const double gap = smallest_gap(model);
      fmt::print("seed {}: the smallest gap between router scores is {:.3g}\n", seed, gap);
      if (gap > kLeastGap) return model;
    }
    fail("no seed keeps the scores of the router apart");
  }();
  return kModel;
}

std::vector<MoeRow> single_rows() {
  return {
      {"micro1", {"batch.micro=1"}},
      {"tp2", kTensor},
      {"dp4_ep2", experts(2, {"parallel.data=4"})},
      {"dp4_ep4", experts(4)},
      {"tp2_sp_ep2_etp1", experts(2, parts(1, kTensorRows))},
      {"cp2_ep2", experts(2, kContext)},
      {"tp2_cp2_ep4_etp1", experts(4, parts(1, with(kTensor, kContext)))},
      {"tp2_cp2_ep4_etp1_allgather",
       experts(4, parts(1, with(with(kTensor, kContext), {kGather})))},
      {"etp2_ep2", experts(2, parts(2))},
      {"distributed_dp4_ep2", experts(2, {"parallel.data=4", kDistributed})},
      {"full_recompute_ep2", experts(2, {"recompute.mode=\"full\""})},
      {"graphs_tp2_sp_ep2", experts(2, with(kTensorRows, {"graph.type=\"partial\""}))},
      {"1f1b_pp2_ep2", pipeline("1f1b", experts(2, {"batch.micro=1"}))},
      {"tp1_etp4", parts(4)},
      {"pairs_dp4_ep2", experts(2, {"parallel.data=4", "batch.micro=1", kPairs})},
      {"pairs_1f1b_pp2_ep2", pipeline("1f1b", experts(2, {"batch.micro=1", kPairs}))},
      {"interleaved_pp2_ep2",
       pipeline("interleaved_1f1b",
                experts(2, with(kEven4, {"schedule.chunks=2", "batch.micro=1"})))},
      {"zbv_pp2_ep2", pipeline("zbv", experts(2, with(kEven4, {"batch.micro=1"})))},
      {"dualpipe_v_pp2_ep2", pipeline("dualpipe_v", experts(2, with(kEven4, {"batch.micro=1"})))},
      {"two_hosts_dp4_ep4", experts(4), {}, true},
      {"cpu_dp4_ep4", experts(4, {kCpu})},
      {"cpu_etp2_ep2", experts(2, parts(2, {kCpu}))},
  };
}

class SingleMoeInvariant : public ::testing::TestWithParam<MoeRow> {};

TEST_P(SingleMoeInvariant, HoldsWhereNoScoresNearlyTie) {
  const Findings found =
      check_invariant(plugins(), GetParam().sets, untied_model(), GetParam().two_hosts);
  EXPECT_TRUE(found.none()) << text(found);
}

// Gradient norms of this training are sensitive to rounding. In step 18 that of one rank of
// `reference` is 1.4e-5 from double precision, and on `cpu` with tp2 it is 1e-6 from it (8e-6 in
// step 4), so that the two are 1.3e-5 apart, where the table allows 1e-5. It is no other sum: in
// double precision tp2 is 1e-14 from one rank, and one rank of `cpu` is 1e-5 from double precision
// too. The row holds but for the norms, and these are compared with double precision.
TEST(SingleMoeRounding, NormsOfTensorRanksOnCpuAreNoFartherFromExactOnesThanOneRanks) {
  const Sets& model = untied_model();
  const Sets layout = with(kTensor, {kCpu});
  const Findings found = check_invariant(plugins(), layout, model);
  EXPECT_EQ(found.losses, "");
  EXPECT_EQ(found.gradients, "");
  EXPECT_EQ(found.update, "");
  const auto& exact =
      one_rank(kTableSteps, with(model, {"precision.compute=\"fp64\"", "precision.main=\"fp64\""}));
  const auto farthest = [&](const Training& run) {
    double most = 0;
    for (std::size_t step = 0; step < exact.norms.size(); ++step) {
      most = std::max(most, std::abs(run.norms.at(step) / exact.norms[step] - 1));
    }
    return most;
  };
  const double one = farthest(one_rank(kTableSteps, model));
  const double ranks = farthest(train(tiny_config(), with(model, layout), {.steps = kTableSteps}));
  fmt::print("norms differ from exact ones by {:.2g} on one rank, {:.2g} on two\n", one, ranks);
  EXPECT_LE(one, 3e-5);
  EXPECT_LE(ranks, 2 * one);
}

INSTANTIATE_TEST_SUITE_P(Layouts,
                         SingleMoeInvariant,
                         ::testing::ValuesIn(single_rows()),
                         [](const auto& info) { return info.param.name; });

}  // namespace moe_invariant_test
}  // namespace tessera::testing

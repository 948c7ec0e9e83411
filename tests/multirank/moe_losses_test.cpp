// What keeps experts balanced: auxiliary losses, biases, jitter and experts that choose, under any
// layout, number of microbatches and loss scale.
#include <gmock/gmock.h>

#include <cmath>
#include <span>

#include "common/error_of.hpp"
#include "kernel/model/host_values.hpp"
#include "layouts_support.hpp"
#include "tessera/base/sequence_cache.hpp"
#include "tessera/error.hpp"
#include "trainer_support.hpp"

namespace tessera::testing {
namespace moe_losses_test {

const std::string kRows = "parallel.sequence_parallel=true";
const Sets kDouble = {"precision.compute=\"fp64\"", "precision.main=\"fp64\""};
const Sets kExperts = {"model.block.mlp.type=\"moe\"",
                       "model.block.mlp.experts=8",
                       "model.block.mlp.ffn=8",
                       "model.block.mlp.init_std=0.5"};  // so that experts are heard

std::string mlp(std::string_view key, double value) {
  return fmt::format("model.block.mlp.{}={}", key, value);
}
std::string router(std::string_view text) { return fmt::format("model.block.mlp.router.{}", text); }
const Sets kBias = {router("score=\"sigmoid\""), router("bias_rate=0.05")};
const Sets kLosses = {mlp("sequence_loss", 0.5), mlp("z_loss", 0.25)};
const Sets kExpertChoice = {router("type=\"expert_choice\"")};

// --- one loss curve ---

struct LossRow {
  std::string name;
  Sets sets, model;
};

void PrintTo(const LossRow& row, std::ostream* out) { *out << row.name; }

std::vector<LossRow> rows() {
  const Sets tp2 = {"parallel.tensor=2"}, cp2 = {"parallel.context=2"};
  const std::string ep2 = "parallel.expert=2", etp1 = "parallel.expert_tensor=1";
  const Sets everything = {
      "parallel.tensor=2", "parallel.context=2", "parallel.data=2", kRows, ep2, etp1};
  const Sets recompute = {"parallel.data=2", ep2, "recompute.mode=\"full\""};
  const Sets grouped = with(kBias, {router("groups=4"), router("group_top_k=2")});
  return {
      {"losses_micro1", {"batch.micro=1"}, kLosses},
      {"losses_dp2_ep2", {"parallel.data=2", ep2}, kLosses},
      {"losses_tp2", tp2, kLosses},
      {"losses_tp2_sp", with(tp2, {kRows}), kLosses},
      {"losses_cp2", cp2, kLosses},
      {"losses_all", everything, kLosses},
      {"losses_recompute", recompute, kLosses},
      {"losses_grouped_tp2", tp2, with(kLosses, {router("groups=4"), router("group_top_k=2")})},
      {"losses_zbv_pp2",
       {"parallel.pipeline=2",
        "schedule.type=\"zbv\"",
        "placement.count_embedding=true",
        "placement.count_head=true"},
       with(kLosses, {"model.layers=6", "batch.micro=1"})},
      {"bias_micro1", {"batch.micro=1"}, kBias},
      {"bias_all", everything, kBias},
      {"bias_recompute", recompute, grouped},
      {"bias_distributed", {"parallel.data=2", "optimizer.type=\"distributed\""}, kBias},
      {"jitter_all", everything, {router("jitter=0.1")}},
      {"jitter_recompute", recompute, {router("jitter=0.1")}},
      {"expert_choice_micro1", {"batch.micro=1"}, kExpertChoice},
      {"expert_choice_tp2", tp2, kExpertChoice},
      {"expert_choice_cp2", cp2, kExpertChoice},
      {"expert_choice_all", everything, kExpertChoice},
      {"expert_choice_dp4_ep4", {"parallel.data=4", "parallel.expert=4"}, kExpertChoice},
      {"expert_choice_etp2_ep2_allgather",
       {"parallel.expert_tensor=2", ep2, "model.block.mlp.dispatcher.type=\"allgather\""},
       kExpertChoice},
      {"expert_choice_padded",
       everything,
       with(kExpertChoice, {"model.block.mlp.pad_to_capacity=true"})},
  };
}

class MoeLosses : public ::testing::TestWithParam<LossRow> {};

TEST_P(MoeLosses, AreInTheInvariant) {
  const Findings found =
      check_invariant(plugins(), GetParam().sets, with(with(kDouble, kExperts), GetParam().model));
  EXPECT_TRUE(found.none()) << text(found);
}

INSTANTIATE_TEST_SUITE_P(All, MoeLosses, ::testing::ValuesIn(rows()), [](const auto& info) {
  return info.param.name;
});

// --- values ---

Sets set_for(const Sets& sets, int steps = 3) {
  return with(with(with(kDouble, kExperts), {fmt::format("run.steps={}", steps)}), sets);
}

std::vector<double> metric(const Sets& sets, const std::string& name) {
  const TestFolder folder;
  run_trainer({tiny_config() + "[observers.console]\ntype = \"none\"\n",
               with(set_for(sets), {"run.out=" + folder.at("run"), "checkpoint.save=false"})});
  return metric_of(folder.at("run"), name);
}

TEST(AuxiliaryLoss, IsAMetricAndNotALoss) {
  const Sets tp2_cp2_dp2 = {"parallel.tensor=2", "parallel.context=2", "parallel.data=2"};
  for (const std::string name : {"moe_sequence_loss", "moe_z_loss"}) {
    const std::vector<double> one = metric(kLosses, name);
    ASSERT_EQ(one.size(), 3U) << name;
    EXPECT_GT(one[0], 0) << name;
    EXPECT_EQ(difference(metric(with(kLosses, tp2_cp2_dp2), name), one, 1e-9, name), "");
  }
  // The first step's loss is that of the parameters, with or without what is added to it.
  EXPECT_EQ(metric(kLosses, "loss")[0], metric({}, "loss")[0]);
}

// Both layers, equal shares: coefficient each where the loads are even, more where they are not.
TEST(AuxiliaryLoss, IsAtLeastItsCoefficient) {
  for (const std::string kind : {"sequence_loss", "microbatch_loss", "global_loss"}) {
    const double value = metric({mlp(kind, 0.5)}, "moe_" + kind)[0];
    EXPECT_GT(value, 2 * 0.5 * 0.9) << kind;
    EXPECT_LT(value, 2 * 0.5 * 4) << kind;
  }
}

TEST(AuxiliaryLoss, OfAMicrobatchOfOneSampleIsThatOfItsSequence) {
  for (const Sets& layout : {Sets{}, Sets{"parallel.data=2"}, Sets{"parallel.context=2"}}) {
    const Sets in = with(layout, {"batch.micro=1"});
    EXPECT_EQ(difference(metric(with(in, {mlp("microbatch_loss", 0.5)}), "moe_microbatch_loss"),
                         metric(with(in, {mlp("sequence_loss", 0.5)}), "moe_sequence_loss"),
                         1e-9,
                         "loss"),
              "");
  }
}

// With one microbatch a step, loads of the whole batch: the same under any number of ranks.
TEST(AuxiliaryLoss, OfTheGlobalBatchSpansTheDataRanks) {
  const Sets global = {mlp("global_loss", 0.5)};
  const std::vector<double> one = metric(with(global, {"batch.micro=8"}), "moe_global_loss");
  EXPECT_EQ(
      difference(metric({mlp("microbatch_loss", 0.5), "batch.micro=8"}, "moe_microbatch_loss"),
                 one,
                 1e-9,
                 "loss"),
      "");
  const std::vector<double> four = metric(
      with(global, {"batch.micro=4", "parallel.data=2", "parallel.tensor=2"}), "moe_global_loss");
  EXPECT_EQ(difference(four, one, 1e-9, "loss"), "");
}

TEST(AuxiliaryLoss, AllKindsTogetherAddUp) {
  const Sets all = {mlp("sequence_loss", 0.1),
                    mlp("microbatch_loss", 0.2),
                    mlp("global_loss", 0.3),
                    mlp("z_loss", 0.4)};
  const std::string weight = "layers.1.mlp.router.weight";
  const auto gradient = [&](const Sets& sets) {
    return train(tiny_config(), set_for(sets), {}).gradients.at(weight);
  };
  const std::vector<double> none = gradient({}), together = gradient(all);
  std::vector<double> sum = none;
  for (const std::string& one : all) {
    const std::vector<double> alone = gradient({one});
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += alone[i] - none[i];
  }
  EXPECT_EQ(difference({{weight, together}}, {{weight, sum}}), "");
  EXPECT_NE(difference({{weight, together}}, {{weight, none}}), "");
}

TEST(AuxiliaryLoss, IsScaledAsTheLossIs) {
  const Sets half = {"precision.compute=\"fp16\""};
  const auto gradients = [&](double scale) {
    return train(tiny_config(),
                 with(with(with(kExperts, kLosses), half),
                      {fmt::format("precision.loss_scale={}", scale)}),
                 {})
        .gradients;
  };
  const Tensors small = gradients(64), large = gradients(1024);
  for (const auto& [name, values] : small) {
    double largest = 0;
    for (const double value : values) largest = std::max(largest, std::abs(value));
    const std::vector<double>& scaled = large.at(name);
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(scaled[i] / 16, values[i], 0.02 * largest + 1e-6) << name << " " << i;
    }
  }
}

TEST(AuxiliaryLoss, OfTheGlobalBatchIsNotForRecomputation) {
  EXPECT_THAT(
      error_of([&] {
        train(tiny_config(), set_for({mlp("global_loss", 0.5), "recompute.mode=\"full\""}), {});
      }),
      ::testing::HasSubstr("mlp: global_loss counts the rows of a step in the order of "
                           "the forward passes"));
}

// --- biases ---

using Buffers = std::map<std::string, std::vector<double>>;

Buffers buffers_of(RankRun& run) {
  Buffers all;
  for (const auto& buffer : run.parts().buffers()) {
    if (buffer->saved) all[buffer->name] = read_values(run.device(), buffer->value);
  }
  return all;
}

void step(RankRun& run) {
  run.step().run();
  run.step().losses();
}

TEST(ExpertBias, MovesOncePerUpdateAndNeverElse) {
  const std::string name = "layers.0.mlp.router.bias";
  const Sets sets = set_for(with(kBias, {"parallel.data=2"}));
  on_ranks(tiny_config(), sets, [&](RankRun& run, Store*) {
    step(run);
    const Buffers first = buffers_of(run);
    ASSERT_EQ(first.at(name).size(), 8U);
    for (const double bias : first.at(name)) {
      EXPECT_TRUE(bias == 0 || std::abs(std::abs(bias) - 0.05) < 1e-15) << bias;
    }
    EXPECT_NE(first.at(name), std::vector<double>(8, 0));
    run.evaluation().validate(4);
    EXPECT_EQ(buffers_of(run), first) << "evaluation counts nothing";
    run.step().refuse_if([](double, FoundInf) { return true; });
    step(run);
    EXPECT_EQ(buffers_of(run), first) << "a skipped step moves nothing";
    run.step().refuse_if([](double, FoundInf) { return false; });
    step(run);
    EXPECT_NE(buffers_of(run), first);
    run.step().check_replicas();
  });
}

// Those of another run, which go on choosing: with other biases the losses are others.
TEST(ExpertBias, WithoutARateStaysAsItCame) {
  const std::string quiet = tiny_config() + "[observers.console]\ntype = \"none\"\n";
  const TestFolder folder;
  const auto run = [&](const std::string& name, const Sets& router, const Sets& more) {
    const Sets sets = set_for(with(router, with(more, {"lr.warmup_steps=1"})), 3);
    run_trainer({quiet, with(sets, {"run.out=" + folder.at(name)})});
    return logical_tensors(folder.at(name) + "/checkpoints/step-3");
  };
  const Sets still = {router("score=\"sigmoid\""), router("bias=true")};
  const std::string bias = "layers.1.mlp.router.bias";
  const Sets from = {"checkpoint.init_from=" + folder.at("base")};
  const auto base = run("base", kBias, {});
  const std::string none(base.at(bias).size(), '\0');
  const auto after = run("after", still, with(from, {"parallel.data=2", "parallel.expert=2"}));
  EXPECT_NE(base.at(bias), none);
  EXPECT_EQ(after.at(bias), base.at(bias));
  EXPECT_EQ(run("new", still, {}).at(bias), none);
  run("zero", still, with(from, {"checkpoint.init_skip=[\"*.router.bias\"]"}));
  run("alone", still, from);
  const auto losses = [&](const char* name) { return metric_of(folder.at(name), "loss"); };
  EXPECT_EQ(difference(losses("after"), losses("alone"), kLossTolerance, "loss"), "");
  EXPECT_NE(losses("zero").at(0), losses("alone").at(0));
}

TEST(ExpertBias, IsSavedAndGoesOnUnderAnotherLayout) {
  const std::string quiet = tiny_config() + "[observers.console]\ntype = \"none\"\n";
  const TestFolder folder;
  const auto sets = [&](const Sets& layout, const std::string& out) {
    return with(set_for(with(with(kBias, {"lr.warmup_steps=2"}), layout), 6), {"run.out=" + out});
  };
  run_trainer({quiet, sets({}, folder.at("whole"))});
  const Sets from = {"parallel.tensor=2", "parallel.data=2"};
  run_trainer({quiet, sets(from, folder.at("parts")), 3});
  run_trainer({quiet,
               sets({"parallel.pipeline=2", "parallel.context=2", "schedule.type=\"1f1b\""},
                    folder.at("parts"))});
  EXPECT_EQ(difference(metric_of(folder.at("parts"), "loss"),
                       metric_of(folder.at("whole"), "loss"),
                       kLossTolerance,
                       "loss"),
            "");
  const std::string last = "/checkpoints/step-6", name = "layers.1.mlp.router.bias";
  const auto stored = logical_tensors(folder.at("parts") + last);
  EXPECT_TRUE(stored.contains(name));
  EXPECT_FALSE(stored.contains("layers.1.mlp.router.counts"));
  EXPECT_EQ(stored.at(name), logical_tensors(folder.at("whole") + last).at(name));
}

TEST(ExpertBias, IsComparedByTheReplicaCheck) {
  TrainOptions options;
  options.at_end = [](RankRun& run) {
    for (const auto& buffer : run.parts().buffers()) {
      std::vector<double> values(static_cast<std::size_t>(buffer->local.elements()),
                                 static_cast<double>(run.mesh().rank()));
      if (buffer->saved) write_values(run.device(), buffer->value, values);
    }
    run.step().check_replicas();
  };
  for (const std::string layout : {"parallel.data=2", "parallel.tensor=2"}) {
    EXPECT_THAT(
        error_of([&] { train(tiny_config(), set_for(with(kBias, {layout})), options); }),
        ::testing::HasSubstr("replicas of buffer \"layers.0.mlp.router.bias\" differ within"));
  }
}

// --- experts that choose ---

TEST(MoeGeneration, OfExpertsHasACacheWhereRowsAreAlone) {
  on_ranks(tiny_config(),
           set_for(with(kExpertChoice, {mlp("z_loss", 0.25)})),
           [&](RankRun& run, Store*) {
             step(run);
             EXPECT_EQ(run.evaluation().make_cache(1), nullptr) << "a row depends on later ones";
           });
  // Rows of top_k are alone, also where there are fewer than a microbatch has.
  on_ranks(tiny_config(), set_for(kBias), [&](RankRun& run, Store*) {
    step(run);
    const std::vector<i32> tokens = {3, 1, 4, 1, 5};
    const auto cache = run.evaluation().make_cache(1);
    ASSERT_NE(cache, nullptr);
    const auto some = [&](std::size_t from, std::size_t to) {
      return run.evaluation()
          .logits(std::span(tokens).subspan(from, to - from),
                  *cache,
                  {.rows = static_cast<i64>(to - from)})
          .at(0);
    };
    some(0, 3);
    some(3, 4);
    const std::vector<float> grown = some(4, 5);
    const std::vector<float> whole = run.evaluation().logits(tokens);
    ASSERT_EQ(grown.size(), whole.size());
    for (std::size_t i = 0; i < whole.size(); ++i) ASSERT_NEAR(grown[i], whole[i], 1e-6) << i;
  });
}

}  // namespace moe_losses_test
}  // namespace tessera::testing

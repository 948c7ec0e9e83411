// Steps that are replayed as one graph have the bits of eager ones, under every layout.
#include <gmock/gmock.h>

#include <algorithm>

#include "kernel/dry/dry_rank.hpp"
#include "kernel/model/host_values.hpp"
#include "replayed_rows_support.hpp"
#include "trainer_support.hpp"

namespace tessera::testing {
namespace whole_step_test {

const Sets kWhole = {"graph.type=\"full_iteration\""};
const std::string kCpu = "device.type=\"cpu\"";
const std::string kRows = "parallel.sequence_parallel=true";
const std::string kDistributed = "optimizer.type=\"distributed\"";
const std::string kBuckets = "parallel.bucket_elements=1000";
const std::string kRecompute = "recompute.mode=\"full\"";

struct Row {
  std::string name;
  Sets layout;
};

std::vector<Row> rows() {
  return {
      {"one_rank", {}},
      {"micro1", {"batch.micro=1"}},
      {"cpu", {kCpu}},
      {"cpu_bf16", {kCpu, "precision.compute=\"bf16\""}},
      {"recompute", {kRecompute}},
      {"lion", {"optimizer.rule.type=\"lion\""}},
      {"muon_dp2", {"optimizer.rule.type=\"muon\"", "parallel.data=2", kDistributed}},
      {"tp2", {"parallel.tensor=2"}},
      {"cpu_tp2_sp", {kCpu, "parallel.tensor=2", kRows}},
      {"cp2", {"parallel.context=2"}},
      {"dp2_buckets", {"parallel.data=2", kBuckets}},
      {"dp2_distributed", {"parallel.data=2", kBuckets, kDistributed}},
      {"dp2_bf16_gradients", {"parallel.data=2", kBuckets, "parallel.gradient_dtype=\"bf16\""}},
      {"pp2_gpipe", pipeline("gpipe")},
      {"pp2_1f1b_recompute", pipeline("1f1b", {kRecompute})},
      {"pp2_interleaved", pipeline("interleaved_1f1b", with(kFourStages, {"schedule.chunks=2"}))},
      {"pp2_zbv_dp2_distributed",
       pipeline("zbv", with(kFourStages, {"parallel.data=2", kDistributed}))},
      {"cpu_pp2_tp2_sp_dualpipe_v",
       pipeline("dualpipe_v", with(kFourStages, {kCpu, "parallel.tensor=2", kRows}))},
      {"moe", moe()},
      {"moe_balanced", moe(kBalanced)},
      {"moe_balanced_padded_ep2", moe(with(kPadded, with(kBalanced, {"parallel.expert=2"})))},
      {"moe_expert_choice_ep2", moe(with(kExpertChoice, {"parallel.expert=2"}))},
      {"moe_expert_choice_etp2_allgather_recompute",
       moe(with(kExpertChoice,
                {"parallel.expert_tensor=2",
                 "model.block.mlp.dispatcher.type=\"allgather\"",
                 kRecompute}))},
      {"moe_expert_choice_tp2_cp2_ep2_etp1_padded",
       moe(with(kExpertChoice,
                {"parallel.tensor=2",
                 "parallel.context=2",
                 "parallel.expert=2",
                 "parallel.expert_tensor=1",
                 "model.block.mlp.pad_to_capacity=true"}))},
      {"moe_padded_pp2_zbv_ep2",
       moe(pipeline("zbv", with(kFourStages, with(kPadded, {"parallel.expert=2"}))))},
  };
}

void expect_equal(const Training& got, const Training& want) {
  EXPECT_EQ(got.losses, want.losses);
  EXPECT_EQ(got.norms, want.norms);
  EXPECT_EQ(got.loss_scales, want.loss_scales);
  EXPECT_EQ(got.updates, want.updates);
  EXPECT_TRUE(got.gradients == want.gradients);
  EXPECT_TRUE(got.parameters == want.parameters);
}

// The first step is inspected, the second is captured after it, two are replayed.
constexpr int kSteps = 4;

Training train_whole(const Sets& sets, u64 seed = 0) {
  TrainOptions options{.steps = kSteps, .deferred_seed = seed};
  options.at_end = [](RankRun& run) { EXPECT_TRUE(run.step().replay().captured()); };
  return train(tiny_config(), with(sets, kWhole), options);
}

class WholeStep : public ::testing::TestWithParam<Row> {};

TEST_P(WholeStep, HasTheBitsOfTheEagerRun) {
  const Training eager = train(tiny_config(), GetParam().layout, {.steps = kSteps});
  ASSERT_EQ(eager.losses.size(), static_cast<std::size_t>(kSteps));
  // Runs in order, then delayed and reordered as far as events allow.
  for (const u64 seed : {0, 1}) {
    SCOPED_TRACE(seed);
    expect_equal(train_whole(GetParam().layout, seed), eager);
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, WholeStep, ::testing::ValuesIn(rows()), [](const auto& info) {
  return info.param.name;
});

// The loss scale is too large at first, so that replayed steps are skipped, and then is not.
TEST(WholeStepScalars, SkipWhatOverflows) {
  constexpr int kMore = 8;
  const Sets fp16 = {"precision.compute=\"fp16\"",
                     "precision.loss_scale_start=1e9",
                     "precision.loss_scale_backoff=0.1",
                     "precision.loss_scale_hysteresis=1"};
  const Training eager = train(tiny_config(), fp16, {.steps = kMore});
  EXPECT_EQ(eager.updates[2], 0) << "no replayed step is skipped";
  EXPECT_GT(eager.updates.back(), 0) << "no step is not skipped";
  const Training replayed = train(tiny_config(), with(fp16, kWhole), {.steps = kMore});
  EXPECT_EQ(replayed.losses, eager.losses);
  EXPECT_EQ(replayed.loss_scales, eager.loss_scales);
  EXPECT_EQ(replayed.updates, eager.updates);
  EXPECT_TRUE(replayed.parameters == eager.parameters);
}

// One rank's steps, where `run` says which are inspected or observed; the losses.
std::vector<double> losses_of(const Sets& sets, const std::function<void(RankRun&)>& run) {
  std::vector<double> losses;
  on_ranks(tiny_config(), sets, [&](RankRun& rank, Store*) {
    run(rank);
    for (const StepLosses::Row& row : rank.step().losses()) losses.push_back(row.loss);
  });
  return losses;
}
const Sets kLogged = {"run.log_every_steps=20", "run.steps=20"};

// A replay that read the batch of the step that was captured, or of the one before, would repeat
// its loss: with equal parameters a batch has one loss, and another batch another one.
TEST(WholeStepInputs, AreThoseOfTheStep) {
  // Step 5 reads the batch of step `again`.
  const auto losses = [&](const Sets& sets, i64 again) {
    return losses_of(with(sets, kLogged), [&](RankRun& run) {
      for (int step = 1; step <= 4; ++step) run.step().run();
      run.step().state().set(again - 1, 4);
      run.step().run();
    });
  };
  const std::vector<double> fresh = losses({}, 5), captured = losses({}, 1), stale = losses({}, 4);
  ASSERT_EQ(fresh.size(), 5U);
  EXPECT_NE(fresh[4], captured[4]) << "the test cannot tell the batches apart";
  EXPECT_NE(fresh[4], stale[4]) << "the test cannot tell the batches apart";
  EXPECT_EQ(losses(kWhole, 5), fresh);
  EXPECT_EQ(losses(kWhole, 1), captured);
  EXPECT_EQ(losses(kWhole, 4), stale);
}

// Steps that someone looks into run as they are, between replays.
TEST(WholeStepMixed, EagerAndReplayedStepsFollowEachOther) {
  int inspected = 0;
  const auto mixed = [&](RankRun& run) {
    run.step().run_observed();
    EXPECT_FALSE(run.step().replay().captured()) << "what an observer saw would be in the graph";
    run.step().run();
    EXPECT_TRUE(run.step().replay().captured());
    run.step().run();
    run.step().run([&] { ++inspected; });
    run.step().run();
    run.step().run_observed();
    run.step().run();
  };
  const auto plain = [](RankRun& run) {
    for (int step = 0; step < 7; ++step) run.step().run();
  };
  EXPECT_EQ(losses_of(with(kWhole, kLogged), mixed), losses_of(kLogged, plain));
  EXPECT_EQ(inspected, 1);
}

// Recording a step computes nothing: what the first step left is there after it was captured.
TEST(WholeStepCapture, ChangesNoValue) {
  for (const Sets& layout : {Sets(), moe(kBalanced), Sets{"parallel.data=2", kDistributed}}) {
    const auto values = [&](const Sets& graphs) {
      std::vector<std::vector<double>> all;
      on_ranks(tiny_config(), with(layout, graphs), [&](RankRun& run, Store*) {
        run.step().run();
        EXPECT_TRUE(run.step().replay().captured());
        if (run.mesh().rank() > 0) return;
        for (const auto& entry : run.parts().parameters()) {
          all.push_back(read_values(run.device(), entry.parameter->grad));
          all.push_back(read_values(run.device(), entry.parameter->compute));
        }
        for (const auto& buffer : run.parts().buffers()) {
          std::vector<char> bytes(static_cast<std::size_t>(buffer->value.bytes()));
          run.device().read(buffer->value, bytes.data());
          all.emplace_back(bytes.begin(), bytes.end());
        }
        all.push_back({static_cast<double>(run.step().state().updates())});
      });
      return all;
    };
    EXPECT_EQ(values(kWhole), values({}));
  }
}

// What a run captures is what the planner says, on every rank; nearly all launches are in it.
TEST(WholeStepPlan, IsThatOfARun) {
  for (const Sets& layout : {Sets(),
                             Sets{"parallel.data=2", kDistributed},
                             moe(with(kExpertChoice, {"parallel.expert=2"})),
                             pipeline("1f1b", {kRecompute}),
                             pipeline("zbv", with(kFourStages, {"parallel.tensor=2"}))}) {
    on_ranks(tiny_config(), with(layout, kWhole), [](RankRun& run, Store*) {
      run.step().run();
      const GraphUse real = run.step().graph_use();
      const i64 held = run.device().memory().peak[static_cast<std::size_t>(Category::graph)];
      const Rank dry = dry_rank(run.setup().layout, run.mesh().rank(), run.rank().device);
      PlacedModel model(dry, run.setup());
      TrainStep step(model);
      const GraphUse planned = graph_use_of(step, dry);
      EXPECT_EQ(planned.graphs, 1);
      EXPECT_EQ(planned.input_bytes, real.input_bytes);
      EXPECT_EQ(planned.scratch_bytes, real.scratch_bytes);
      EXPECT_GE(held, real.scratch_bytes);
      EXPECT_LE(planned.launches - planned.replayed, 4) << "histories of losses and scalars";
    });
  }
}

}  // namespace whole_step_test
}  // namespace tessera::testing

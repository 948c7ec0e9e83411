// A run continues from a checkpoint: the same bits under the same layout, the same curve under
// another one.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/metrics_lines.hpp"
#include "invariant_support.hpp"
#include "kernel/train/run/training_state.hpp"
#include "layouts_support.hpp"
#include "tessera/error.hpp"
#include "tessera/random.hpp"
#include "trainer_support.hpp"
#include "training_support.hpp"

namespace tessera::testing {
namespace checkpoint_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kDistributed = "optimizer.type=\"distributed\"";

const std::vector<TableRow>& layouts() {
  static const std::vector<TableRow> kAll = {
      {"single", {}},
      {"tp2", {"parallel.tensor=2"}},
      {"dp2", {"parallel.data=2"}},
      {"tp2_dp2", {"parallel.tensor=2", "parallel.data=2"}},
      {"cp2", {"parallel.context=2"}},
      {"distributed_dp2", {"parallel.data=2", kDistributed}},
      {"distributed_dp4", {"parallel.data=4", "parallel.bucket_elements=1000", kDistributed}},
      {"distributed_pp2_tp2_cp2",
       {"parallel.pipeline=2",
        "parallel.tensor=2",
        "parallel.context=2",
        "schedule.type=\"1f1b\"",
        kDistributed}},
      {"pp2", {"parallel.pipeline=2", "schedule.type=\"zb_h1\""}},
      {"pp2_tp2_sp",
       {"parallel.pipeline=2",
        "parallel.tensor=2",
        "parallel.sequence_parallel=true",
        "schedule.type=\"1f1b\""}},
  };
  return kAll;
}

constexpr i64 kSteps = 8, kStop = 3;

// Ends after 8 steps; with a vocabulary that no layout stores unpadded.
std::string config() { return tiny_config() + "[observers.console]\ntype = \"none\"\n"; }

Sets sets_for(const Sets& layout, const std::string& out, const Sets& more = {}) {
  return with(with({"run.steps=8",
                    "lr.warmup_steps=2",
                    "model.vocab_multiple=24",
                    "checkpoint.every_steps=100",
                    "run.out=" + out},
                   layout),
              more);
}

// A run that was stopped by a signal after kStop steps.
void train_until_stop(const Sets& layout, const std::string& out, const Sets& more = {}) {
  run_trainer({config(), sets_for(layout, out, more), kStop});
}

void continue_run(const Sets& layout, const std::string& out, const Sets& more = {}) {
  run_trainer({config(), sets_for(layout, out, more)});
}

std::string step_in(const std::string& out, i64 step) {
  return fmt::format("{}/checkpoints/step-{}", out, step);
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return fmt::format("{}: {}", error.exit_code(), error.what());
  }
  return "nothing was thrown";
}

// --- the same layout ---

class Resume : public ::testing::TestWithParam<TableRow> {};

TEST_P(Resume, RepeatsTheUninterruptedRunBitForBit) {
  const TestFolder folder;
  const Sets& layout = GetParam().sets;
  continue_run(layout, folder.at("whole"));
  train_until_stop(layout, folder.at("parts"));
  ASSERT_EQ(metrics_lines(folder.at("parts")).size(), static_cast<std::size_t>(kStop));
  continue_run(layout, folder.at("parts"));
  const std::vector<std::string> whole = metrics_lines(folder.at("whole"));
  ASSERT_EQ(whole.size(), static_cast<std::size_t>(kSteps));
  EXPECT_EQ(metrics_lines(folder.at("parts")), whole);
  EXPECT_EQ(logical_tensors(step_in(folder.at("parts"), kSteps)),
            logical_tensors(step_in(folder.at("whole"), kSteps)));
}

// --- another layout ---

TEST_P(Resume, UnderEveryOtherLayout) {
  const TestFolder folder;
  continue_run({}, folder.at("reference"));
  train_until_stop(GetParam().sets, folder.at("from"));
  const auto stored = logical_tensors(step_in(folder.at("from"), kStop));
  for (const TableRow& to : layouts()) {
    SCOPED_TRACE(to.name);
    const std::string copy = folder.at(to.name), again = folder.at(to.name + "_again");
    on_ranks(config(), sets_for(to.sets, copy), [&](RankRun& run, Store* store) {
      CheckpointArguments arguments;
      arguments.run = "test";
      arguments.mesh = &run.mesh();
      arguments.device = &run.device();
      arguments.store = store;
      arguments.folder = folder.at("from") + "/checkpoints";
      Checkpoints checkpoints(arguments);
      TrainingState state(run.model(), run.step());
      state.continue_from(*checkpoints.load("auto", state.tensors(), state.names()));
      EXPECT_EQ(run.step().state().updates(), kStop);
      arguments.folder = again;
      Checkpoints(arguments).save(state.info(""), state.tensors());
    });
    EXPECT_EQ(logical_tensors(fmt::format("{}/step-{}", again, kStop)), stored);

    std::filesystem::copy(folder.at("from"), copy, std::filesystem::copy_options::recursive);
    continue_run(to.sets, copy);
    EXPECT_EQ(difference(metric_of(copy, "loss"),
                         metric_of(folder.at("reference"), "loss"),
                         kLossTolerance,
                         "loss"),
              "");
    EXPECT_EQ(difference(metric_of(copy, "grad_norm"),
                         metric_of(folder.at("reference"), "grad_norm"),
                         kNormTolerance,
                         "gradient norm"),
              "");
  }
}

// --- layouts drawn at random ---

// Layouts of up to four ranks for the small model: four heads, two blocks, 256 tokens.
constexpr const char* kNarrow = "precision.compute=\"bf16\"";
TableRow draw_layout(u64 seed, u32 index) {
  u32 draws = 0;
  const auto draw = [&](u32 n) { return Philox::words(seed, {index, draws++})[0] % n; };
  const i64 worlds[] = {1, 2, 4, 4, 4}, sizes[] = {1, 2, 4};
  i64 left = worlds[draw(5)], data = 1;
  const bool distributed = draw(2) == 0;
  if (distributed && left > 1) left /= data = 2;  // so that there are shards
  const auto take = [&](u32 most) {
    const i64 size = std::min(sizes[draw(most)], left);
    left /= size;
    return size;
  };
  const i64 pipeline = take(2), tensor = take(3), context = take(2);
  const bool sequence = tensor > 1 && draw(2) == 0;
  TableRow layout;
  layout.sets = {fmt::format("parallel.pipeline={}", pipeline),
                 fmt::format("parallel.tensor={}", tensor),
                 fmt::format("parallel.context={}", context),
                 fmt::format("parallel.data={}", data * left),
                 fmt::format("parallel.sequence_parallel={}", sequence)};
  if (pipeline > 1) {
    const char* schedules[] = {"1f1b", "zb_h1", "zbv", "interleaved_1f1b"};
    layout.sets.push_back(fmt::format("schedule.type=\"{}\"", schedules[draw(4)]));
  }
  if (distributed) layout.sets.push_back(kDistributed);
  if (draw(2) == 0) layout.sets.emplace_back(kNarrow);
  layout.name = fmt::format("{}", fmt::join(layout.sets, " "));
  return layout;
}

// With as many blocks as the deepest cut has stages.
const Sets kFourBlocks = {"model.layers=4"};

// TESSERA_TEST_SEED and TESSERA_TEST_ROUNDS choose other pairs, and more of them.
u64 number_from(const char* variable, u64 otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(Checkpoint, PairsOfLayoutsDrawnAtRandom) {
  const u64 seed = number_from("TESSERA_TEST_SEED", 41);
  const auto rounds = static_cast<u32>(number_from("TESSERA_TEST_ROUNDS", 10));
  const TestFolder reference;
  const std::string wide = reference.at("wide"), narrow = reference.at("narrow");
  continue_run({}, wide, kFourBlocks);
  continue_run({kNarrow}, narrow, kFourBlocks);
  for (u32 round = 0; round < rounds; ++round) {
    const TableRow from = draw_layout(seed, 2 * round), to = draw_layout(seed, 2 * round + 1);
    fmt::print("TESSERA_TEST_SEED={} round {}: {} -> {}\n", seed, round, from.name, to.name);
    SCOPED_TRACE(fmt::format("seed {} round {}: {} -> {}", seed, round, from.name, to.name));
    const TestFolder folder;
    const std::string out = folder.at("run"), again = folder.at("again");
    train_until_stop(from.sets, out, kFourBlocks);
    const auto stored = logical_tensors(step_in(out, kStop));
    on_ranks(config(), with(sets_for(to.sets, out), kFourBlocks), [&](RankRun& run, Store* store) {
      CheckpointArguments arguments;
      arguments.run = "test";
      arguments.mesh = &run.mesh();
      arguments.device = &run.device();
      arguments.store = store;
      arguments.folder = out + "/checkpoints";
      Checkpoints checkpoints(arguments);
      TrainingState state(run.model(), run.step());
      state.continue_from(*checkpoints.load("auto", state.tensors(), state.names()));
      arguments.folder = again;
      Checkpoints(arguments).save(state.info(""), state.tensors());
    });
    EXPECT_EQ(logical_tensors(fmt::format("{}/step-{}", again, kStop)), stored);
    continue_run(to.sets, out, kFourBlocks);
    const auto is_narrow = [](const TableRow& row) { return row.name.ends_with(kNarrow); };
    for (const auto& [key, tolerance] :
         {std::pair("loss", kLossTolerance), std::pair("grad_norm", kNormTolerance)}) {
      const std::vector<double> got = metric_of(out, key), exact = metric_of(wide, key);
      if (!is_narrow(from) && !is_narrow(to)) {
        EXPECT_EQ(difference(got, exact, tolerance, key), "");
        continue;
      }
      // As near as a layout in bf16 has to be to one rank; half a run in bf16 is nearer to fp32.
      const std::vector<double> near = metric_of(narrow, key);
      const bool both = is_narrow(from) && is_narrow(to);
      EXPECT_LE(rms(got, both ? near : exact), 2 * rms(near, exact)) << key;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, Resume, ::testing::ValuesIn(layouts()), [](const auto& info) {
  return info.param.name;
});

// --- saved in the background ---

TEST_P(Resume, SavedWhileTrainingGoesOnItIsTheSame) {
  const TestFolder folder;
  const Sets &layout = GetParam().sets, often = {"checkpoint.every_steps=2", "checkpoint.keep=0"};
  const Sets later = with(often, {"checkpoint.asynchronous=true"});
  continue_run(layout, folder.at("at_once"), often);
  run_trainer({config(), sets_for(layout, folder.at("later"), later), kStop});
  EXPECT_EQ(metrics_lines(folder.at("later")).size(), static_cast<std::size_t>(kStop));
  EXPECT_TRUE(std::filesystem::exists(step_in(folder.at("later"), kStop) + "/index.json"))
      << "a run that is stopped waits for its checkpoint";
  continue_run(layout, folder.at("later"), later);
  EXPECT_EQ(metrics_lines(folder.at("later")), metrics_lines(folder.at("at_once")));
  for (const i64 step : {2, 4, 6, 8}) {
    EXPECT_EQ(logical_tensors(step_in(folder.at("later"), step)),
              logical_tensors(step_in(folder.at("at_once"), step)))
        << step;
  }
}

TEST(Checkpoint, PaddedVocabularyIsStoredUnpadded) {
  const TestFolder folder;
  train_until_stop({"parallel.tensor=2"}, folder.at("run"));
  bool found = false;
  for (const auto& [name, tensor] : read_index(step_in(folder.at("run"), kStop)).tensors) {
    if (tensor.shape.size() != 2 || name.find("embedding") == std::string::npos) continue;
    EXPECT_NE(tensor.shape[0], 288) << name;
    found = found || tensor.shape[0] == 256;
  }
  EXPECT_TRUE(found);
}

TEST(Checkpoint, EveryNStepsAndTheNewestStay) {
  const TestFolder folder;
  continue_run(
      {"parallel.data=2"}, folder.at("run"), {"checkpoint.every_steps=3", "checkpoint.keep=2"});
  const auto steps = complete_steps(folder.at("run") + "/checkpoints");
  EXPECT_THAT(steps,
              ::testing::ElementsAre(step_in(folder.at("run"), 8), step_in(folder.at("run"), 6)));
}

TEST(Checkpoint, ADamagedNewestIsRetrained) {
  const TestFolder folder;
  const Sets every = {"checkpoint.every_steps=3", "checkpoint.keep=1"};
  const std::string out = folder.at("run");
  continue_run({}, folder.at("whole"), every);
  run_trainer({config(), sets_for({}, out, {"checkpoint.every_steps=3"}), 7});
  std::ofstream(step_in(out, 7) + "/index.json") << "{}";
  continue_run({}, out, every);
  EXPECT_EQ(metrics_lines(out), metrics_lines(folder.at("whole")));
  EXPECT_EQ(logical_tensors(step_in(out, 8)), logical_tensors(step_in(folder.at("whole"), 8)));
}

TEST(Checkpoint, AFinishedRunIsLeftAsItIs) {
  const TestFolder folder;
  continue_run({}, folder.at("run"));
  const auto before = metrics_lines(folder.at("run"));
  continue_run({}, folder.at("run"));
  EXPECT_EQ(metrics_lines(folder.at("run")), before);
}

// --- 16 bits ---

// Experts are cut and replicated along axes of their own.
TEST(ResumeWithExperts, UnderAnotherLayout) {
  const Sets model = {"precision.compute=\"fp64\"",
                      "precision.main=\"fp64\"",
                      "model.block.mlp.type=\"moe\"",
                      "model.block.mlp.experts=4",
                      "model.block.mlp.ffn=8",
                      "model.block.mlp.init_std=0.5"};
  const std::vector<TableRow> all = {
      {"single", model},
      {"dp4_ep2", with(model, {"parallel.data=4", "parallel.expert=2"})},
      {"tp2_ep2_etp1",
       with(model, {"parallel.tensor=2", "parallel.expert=2", "parallel.expert_tensor=1"})},
      {"distributed_dp4_etp2",
       with(model, {"parallel.data=4", "parallel.expert_tensor=2", kDistributed})},
  };
  const TestFolder folder;
  continue_run(model, folder.at("whole"));
  const std::vector<double> losses = metric_of(folder.at("whole"), "loss");
  for (const TableRow& from : all) {
    train_until_stop(from.sets, folder.at(from.name));
    for (const TableRow& to : all) {
      const std::string copy = folder.at(from.name + "_" + to.name);
      std::filesystem::copy(folder.at(from.name), copy, std::filesystem::copy_options::recursive);
      continue_run(to.sets, copy);
      EXPECT_EQ(difference(metric_of(copy, "loss"), losses, 1e-9, "loss"), "")
          << from.name << " to " << to.name;
    }
  }
}

// State with a shape of its own is one logical tensor too: stored once, cut as the layout wants it.
TEST(ResumeWithOwnState, UnderAnotherLayout) {
  const Sets model =
      with({"precision.compute=\"fp64\"", "precision.main=\"fp64\"", "model.vocab_multiple=24"},
           {"optimizer.rule.type=\"adafactor\""});
  const Sets tensor = {"parallel.tensor=2", "parallel.data=2"};
  const std::vector<TableRow> all = {
      {"single", model},
      {"tp2", with(model, {"parallel.tensor=2"})},
      {"distributed_tp2_dp2", with(with(model, tensor), {kDistributed})},
      {"distributed_pp2_dp2",
       with(model,
            {"parallel.pipeline=2", "schedule.type=\"1f1b\"", "parallel.data=2", kDistributed})},
  };
  const TestFolder folder;
  continue_run(model, folder.at("whole"));
  const std::vector<double> losses = metric_of(folder.at("whole"), "loss");
  for (const TableRow& from : all) {
    train_until_stop(from.sets, folder.at(from.name));
    const CheckpointIndex index = read_index(step_in(folder.at(from.name), kStop));
    using Sizes = std::vector<i64>;
    EXPECT_EQ(index.tensors.at("layers.0.mlp.up.weight/rows").shape, Sizes{64});
    EXPECT_EQ(index.tensors.at("layers.0.mlp.up.weight/columns").shape, Sizes{16});
    EXPECT_EQ(index.tensors.at("layers.0.mlp.up.bias/rows").shape, Sizes{});
    EXPECT_EQ(index.tensors.at("layers.0.mlp.up.bias/columns").shape, Sizes{64});
    EXPECT_EQ(index.tensors.at("embedding.weight/rows").shape, Sizes{256}) << "without padding";
    for (const TableRow& to : all) {
      const std::string copy = folder.at(from.name + "_" + to.name);
      std::filesystem::copy(folder.at(from.name), copy, std::filesystem::copy_options::recursive);
      continue_run(to.sets, copy);
      EXPECT_EQ(difference(metric_of(copy, "loss"), losses, 1e-9, "loss"), "")
          << from.name << " to " << to.name;
    }
  }
}

const Sets kBf16 = {"precision.compute=\"bf16\""};
const Sets kMuon = {"optimizer.rule.type=\"muon\""};
// Overflows at first, and grows again within the run.
const Sets kFp16 = {"precision.compute=\"fp16\"",
                    "precision.loss_scale_start=16777216",
                    "precision.loss_scale_window=2"};

// A run that stops and goes on ends as the one that did not stop, bit for bit.
void expect_repeats(const Sets& layout) {
  const TestFolder folder;
  continue_run(layout, folder.at("whole"));
  train_until_stop(layout, folder.at("parts"));
  continue_run(layout, folder.at("parts"));
  EXPECT_EQ(metrics_lines(folder.at("parts")), metrics_lines(folder.at("whole")));
  EXPECT_EQ(logical_tensors(step_in(folder.at("parts"), kSteps)),
            logical_tensors(step_in(folder.at("whole"), kSteps)));
}

TEST(ResumeIn16Bits, RepeatsTheUninterruptedRunBitForBit) {
  const Sets tensor = {"parallel.tensor=2", "parallel.data=2"};
  const Sets stages = {"parallel.pipeline=2", "schedule.type=\"1f1b\""};
  const Sets whole_shards = with(with(tensor, kBf16), with(kMuon, {kDistributed}));
  for (const Sets& layout :
       {with(tensor, kBf16), with(tensor, kFp16), with(stages, kFp16), whole_shards}) {
    expect_repeats(layout);
  }
}

// In each layout: the scale, its counters and what was skipped go from one run to the next.
TEST(ResumeIn16Bits, TheLossScaleGoesOn) {
  const TestFolder folder;
  train_until_stop(with(kFp16, {"parallel.data=2"}), folder.at("run"));
  const CheckpointInfo info = read_index(step_in(folder.at("run"), kStop)).info;
  ASSERT_TRUE(info.loss_scale);
  EXPECT_LT(info.loss_scale->scale, 16777216);
  EXPECT_LT(info.updates, kStop);
  EXPECT_EQ(metric_of(folder.at("run"), "skipped_steps").back(), kStop - info.updates);
  EXPECT_EQ(metric_of(folder.at("run"), "loss_scale").back(), info.loss_scale->scale);
  on_ranks(config(),
           sets_for(with(kFp16, {"parallel.tensor=2"}), folder.at("run")),
           [&](RankRun& run, Store*) {
             run.step().state().set(info.step, info.updates, info.loss_scale);
             const auto now = run.step().state().loss_scale();
             ASSERT_TRUE(now);
             EXPECT_EQ(now->scale, info.loss_scale->scale);
             EXPECT_EQ(now->clean_steps, info.loss_scale->clean_steps);
             EXPECT_EQ(now->hysteresis, info.loss_scale->hysteresis);
             EXPECT_EQ(run.step().state().updates(), info.updates);
           });
}

// The first update makes the loss scale overflow, so that the run goes on with skipped steps: their
// rate is that of the last update, which was before the stop.
TEST(ResumeIn16Bits, SkippedStepsHaveTheRateOfTheLastUpdate) {
  const TestFolder folder;
  const Sets overflows = with(kFp16,
                              {"precision.loss_scale_start=1024",
                               "precision.loss_scale_window=1",
                               "precision.loss_scale_growth=1e9"});
  continue_run(overflows, folder.at("whole"));
  train_until_stop(overflows, folder.at("parts"));
  EXPECT_LT(read_index(step_in(folder.at("parts"), kStop)).info.updates, kStop);
  continue_run(overflows, folder.at("parts"));
  EXPECT_EQ(metrics_lines(folder.at("parts")), metrics_lines(folder.at("whole")));
}

// Checkpoints have main values only, so another compute goes on from the same ones.
TEST(ResumeIn16Bits, ComputeMayChange) {
  const TestFolder folder;
  continue_run({}, folder.at("whole"));
  train_until_stop({"parallel.data=2"}, folder.at("run"));
  const auto stored = logical_tensors(step_in(folder.at("run"), kStop));
  continue_run(with(kBf16, {"parallel.tensor=2"}), folder.at("run"));
  EXPECT_EQ(
      difference(
          metric_of(folder.at("run"), "loss"), metric_of(folder.at("whole"), "loss"), 5e-3, "loss"),
      "");
  for (const auto& [name, tensor] : read_index(step_in(folder.at("run"), kSteps)).tensors) {
    EXPECT_EQ(tensor.dtype, "fp32") << name;
  }
  EXPECT_EQ(logical_tensors(step_in(folder.at("run"), kStop)), stored);
}

// Shards that are whole parameters are stored as every replica would have stored them, and what is
// no matrix has the moments of AdamW.
TEST(ResumeIn16Bits, WholeParametersGoToOtherLayouts) {
  const TestFolder folder;
  const Sets muon = with(kBf16, kMuon), dp2 = with(muon, {"parallel.data=2"});
  train_until_stop(dp2, folder.at("replicated"));
  train_until_stop(with(dp2, {kDistributed}), folder.at("distributed"));
  const auto stored = logical_tensors(step_in(folder.at("distributed"), kStop));
  EXPECT_EQ(stored, logical_tensors(step_in(folder.at("replicated"), kStop)));
  EXPECT_TRUE(stored.contains("layers.0.mlp.up.weight/momentum"));
  EXPECT_FALSE(stored.contains("layers.0.mlp.up.weight/first_moment"));
  EXPECT_FALSE(stored.contains("layers.0.mlp.up.weight/second_moment"));
  EXPECT_FALSE(stored.contains("layers.0.mlp.up.bias/momentum"));
  EXPECT_TRUE(stored.contains("layers.0.mlp.up.bias/first_moment"));
  EXPECT_TRUE(stored.contains("layers.0.mlp.up.bias/second_moment"));
  continue_run(dp2, folder.at("replicated"));
  continue_run(with(muon, {"parallel.tensor=2"}), folder.at("distributed"));
  EXPECT_EQ(difference(metric_of(folder.at("distributed"), "loss"),
                       metric_of(folder.at("replicated"), "loss"),
                       5e-3,
                       "loss"),
            "");
}

// Under muon the stage of the embedding has no momentum, and a stage without layers has no state.
TEST(Checkpoint, StagesWhoseStateDiffersGoOn) {
  const Sets stages = {
      "parallel.pipeline=4", "schedule.type=\"1f1b\"", "placement.layout=\"E|t*2||L\""};
  for (const Sets& layout : {stages, with(stages, kMuon)}) {
    expect_repeats(layout);
  }
}

// --- another run ---

TEST(Checkpoint, AnotherRunIsRefused) {
  const TestFolder folder;
  const std::string out = folder.at("run");
  train_until_stop({"parallel.tensor=2"}, out);
  const auto error = [&](const Sets& sets) {
    return error_of([&] { continue_run({"parallel.data=2"}, out, sets); });
  };
  EXPECT_THAT(error({"run.seed=12"}),
              AllOf(HasSubstr("2: "), HasSubstr("was made with run.seed = 11, not 12")));
  EXPECT_THAT(error({"data.validation=0.5"}), HasSubstr("was made with other data: \"text "));
  EXPECT_THAT(error({"batch.global=16"}),
              HasSubstr("has seen 24 samples in 3 steps, which is not batch.global = 16 a step"));
  EXPECT_THAT(error({"batch.sequence_length=4", "model.positions=8"}),
              HasSubstr("was made with batch.sequence_length = 8, not 4: that cuts the data into "
                        "other samples"));
  EXPECT_THAT(error({"run.steps=2"}), HasSubstr("is beyond the end of this run: run.steps = 2"));
  EXPECT_THAT(error({"model.hidden=32"}),
              AllOf(HasSubstr("does not fit this configuration:"),
                    HasSubstr("[256, 16] in the checkpoint")));
  EXPECT_THAT(error({"optimizer.rule.type=\"sgd\""}),
              AllOf(HasSubstr("not in this configuration: "), HasSubstr("/first_moment")));
  EXPECT_THAT(error({"precision.main=\"fp64\"", "precision.compute=\"fp64\""}),
              HasSubstr("fp32 [16] in the checkpoint, fp64 [16] in this configuration"));
  EXPECT_EQ(metrics_lines(out).size(), static_cast<std::size_t>(kStop))
      << "and nothing was touched";
}

// No moment of AdamW becomes the momentum of a matrix, and none is dropped; every stage says so.
TEST(Checkpoint, AnotherRulesStateIsRefused) {
  const Sets pipeline = {"parallel.pipeline=2", "schedule.type=\"1f1b\""};
  const std::string up = "layers.1.mlp.up.weight";
  for (const Sets& layout : {Sets{"parallel.data=2"}, pipeline}) {
    const TestFolder folder;
    train_until_stop(layout, folder.at("adamw"));
    EXPECT_THAT(error_of([&] { continue_run(layout, folder.at("adamw"), kMuon); }),
                AllOf(HasSubstr("2: "),
                      HasSubstr("not in the checkpoint: "),
                      HasSubstr(up + "/momentum"),
                      HasSubstr("not in this configuration: "),
                      HasSubstr(up + "/first_moment"),
                      HasSubstr(up + "/second_moment"),
                      HasSubstr("checkpoint.init_from = ")));
    train_until_stop(layout, folder.at("muon"), kMuon);
    EXPECT_THAT(error_of([&] { continue_run(layout, folder.at("muon")); }),
                AllOf(HasSubstr("2: "),
                      HasSubstr(up + "/second_moment"),
                      HasSubstr("not in this configuration: "),
                      HasSubstr(up + "/momentum"),
                      HasSubstr("checkpoint.init_from = ")));
  }
}

}  // namespace checkpoint_test
}  // namespace tessera::testing

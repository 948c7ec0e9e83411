// Weights that are packed once a step: the bits of a run that packs them in each product, whoever
// changes the parameters.
#include <gmock/gmock.h>

#include <algorithm>
#include <limits>

#include "common/error_of.hpp"
#include "kernel/checkpoint/folders.hpp"
#include "kernel/checkpoint/index.hpp"
#include "kernel/model/host_values.hpp"
#include "kernel/train/run/dry_run.hpp"
#include "kernel/train/run/generator.hpp"
#include "kernel/train/run/training_state.hpp"
#include "kernel/train/setup/make_rank.hpp"
#include "mutants_support.hpp"
#include "replayed_rows_support.hpp"
#include "tessera/error.hpp"
#include "trainer_support.hpp"

namespace tessera::testing {
namespace prepared_weights_test {

const Sets kPrepared = {"precision.prepare_weights=true"};
const Sets kCpu = {"device.type=\"cpu\""};
const Sets kBf16 = with(kCpu, {"precision.compute=\"bf16\""});
const std::string kRows = "parallel.sequence_parallel=true";
const std::string kDistributed = "optimizer.type=\"distributed\"";
const std::string kBuckets = "parallel.bucket_elements=1000";
const std::string kWhole = "graph.type=\"full_iteration\"";
const std::string kPartial = "graph.type=\"partial\"";
constexpr int kSteps = 4;

struct Row {
  std::string name;
  Sets sets;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

std::vector<Row> rows() {
  return {
      {"one_rank", {}},
      {"micro1", {"batch.micro=1"}},
      {"fp16", {"precision.compute=\"fp16\"", "precision.loss_scale_start=256"}},
      {"untied", {"model.tied_embeddings=false"}},
      {"recompute", {"batch.micro=1", "recompute.mode=\"full\""}},
      {"tp2_sp", {"parallel.tensor=2", kRows}},
      {"tp4", {"parallel.tensor=4", "batch.micro=1"}},
      {"cp2", {"parallel.context=2"}},
      {"dp2", {"parallel.data=2", kBuckets}},
      {"dp2_distributed", {"parallel.data=2", kBuckets, kDistributed}},
      {"dp2_muon", {"parallel.data=2", kDistributed, "optimizer.rule.type=\"muon\""}},
      {"pp2_1f1b", pipeline("1f1b")},
      {"pp2_zbv_dp2_distributed",
       pipeline("zbv", with(kFourStages, {"parallel.data=2", kBuckets, kDistributed}))},
      {"pp2_tp2_sp_dualpipe_v",
       pipeline("dualpipe_v", with(kFourStages, {"parallel.tensor=2", kRows}))},
      {"pp2_pairs", pipeline("1f1b", {"schedule.overlap=true"})},
      {"moe", moe({"model.block.mlp.shared_ffn=16"})},
      {"whole_step", {"batch.micro=1", kWhole}},
      {"whole_step_dp2_distributed", {"parallel.data=2", kBuckets, kDistributed, kWhole}},
      {"partial", {"batch.micro=1", kPartial, "check.graphs_every=2"}},
      {"partial_pp2_dp2_distributed",
       pipeline("1f1b", {"parallel.data=2", kDistributed, kPartial})},
  };
}

// Every weight of a linear layer has the form for forward products and, if asked, the one for
// gradients; nothing else has any.
void expect_forms(const ModelParts& parts, bool backward) {
  int forms = 0;
  for (const auto& entry : parts.parameters()) {
    const Parameter& p = *entry.parameter;
    EXPECT_EQ(p.forward_packed.defined(), p.linear) << p.name;
    EXPECT_EQ(p.backward_packed.defined(), p.linear && backward) << p.name;
    forms += p.linear ? 1 : 0;
  }
  EXPECT_GE(forms, 1);
}

void expect_both_forms(RankRun& run) { expect_forms(run.parts(), true); }

class PreparedWeightsTable : public ::testing::TestWithParam<Row> {};

TEST_P(PreparedWeightsTable, HasTheBitsOfTheRunWithout) {
  const Sets sets = with(kBf16, GetParam().sets);
  const Training without = train(tiny_config(), sets, {.steps = kSteps});
  ASSERT_EQ(without.losses.size(), static_cast<std::size_t>(kSteps));
  // Runs in order, then delayed and reordered as far as events allow.
  for (const u64 seed : {0, 1}) {
    SCOPED_TRACE(seed);
    TrainOptions options{.steps = kSteps, .deferred_seed = seed};
    options.at_end = &expect_both_forms;
    const Training prepared = train(tiny_config(), with(sets, kPrepared), options);
    EXPECT_EQ(prepared.losses, without.losses);
    EXPECT_EQ(prepared.norms, without.norms);
    EXPECT_EQ(prepared.updates, without.updates);
    EXPECT_TRUE(prepared.gradients == without.gradients);
    EXPECT_TRUE(prepared.parameters == without.parameters);
  }
}

INSTANTIATE_TEST_SUITE_P(Rows,
                         PreparedWeightsTable,
                         ::testing::ValuesIn(rows()),
                         [](const auto& i) { return i.param.name; });

// oneDNN's packed weights, through fp32: the invariant's tolerance.
TEST(PreparedWeightsOfOneDnn, HoldTheInvariant) {
  const Sets prepared =
      with(kPrepared, {"device.fp32_matmul=\"onednn\"", "device.prepare_fp32=true"});
  for (const Sets& layout : {Sets{"batch.micro=1"}, Sets{"parallel.tensor=2", "parallel.data=2"}}) {
    const Findings found = check_invariant(plugins(), with(with(kCpu, prepared), layout));
    EXPECT_TRUE(found.none()) << text(found);
    train(tiny_config(),
          with(with(kCpu, prepared), layout),
          {.steps = 1, .at_end = &expect_both_forms});
  }
}

// --- Whoever changes parameters ---

// A bucket is packed once a step, however many microbatches read it; after an evaluation, which
// packs what is old, not again.
TEST(PreparedWeights, ArePackedOnceAStep) {
  on_ranks(
      tiny_config(), with(with(kBf16, kPrepared), {"batch.micro=1"}), [](RankRun& run, Store*) {
        const auto prepares =
            std::ranges::count(run.step().plan().actions, PlanAction::Prepare, &PlanAction::kind);
        const auto buckets = run.model().prepared().buckets();
        EXPECT_EQ(prepares, std::ranges::count(buckets, true));
        EXPECT_GT(prepares, 0);
        EXPECT_EQ(run.step().plan().shape.microbatches, 8);
      });
}

// The forms are those of the compute values: packing them again changes nothing.
void expect_fresh(RankRun& run) {
  const auto forms = [&] {
    std::vector<std::vector<u8>> all;
    for (const Parameter* p : run.parts().parameter_list()) {
      for (const Tensor& form : {p->forward_packed, p->backward_packed}) {
        if (!form.defined()) continue;
        std::vector<u8>& bytes = all.emplace_back(static_cast<std::size_t>(form.elements()));
        run.device().read(form, bytes.data());
      }
    }
    return all;
  };
  const auto before = forms();
  Context cx = run.rank().context();
  run.model().prepared().changed();
  run.model().prepared().prepare_all(cx);
  EXPECT_TRUE(forms() == before);
}

// Losses of validations between steps, and after values came back as from a checkpoint.
std::vector<double> validations(const Sets& sets) {
  std::vector<double> losses;
  on_ranks(tiny_config(), with(sets, {"data.validation=0.01"}), [&](RankRun& run, Store*) {
    TrainStep& step = run.step();
    TrainingState state(run.model(), step);
    const auto validate = [&] {
      step.gather_parameters();
      losses.push_back(run.evaluation().validate(4).loss);
      expect_fresh(run);
    };
    const auto run_step = [&] {
      step.run();
      step.losses();
    };
    run_step();
    validate();
    std::vector<std::pair<Tensor, std::vector<double>>> kept;
    for (const CheckpointTensor& tensor : state.tensors()) {
      kept.emplace_back(tensor.tensor, read_values(run.device(), tensor.tensor));
    }
    for (int i = 0; i < 3; ++i) run_step();
    validate();  // its forms are of these values
    for (const auto& [tensor, values] : kept) write_values(run.device(), tensor, values);
    state.begin_with_loaded();
    validate();
    run_step();
    validate();
  });
  return losses;
}

TEST(PreparedWeights, AreFreshAfterStepsAndLoads) {
  const Sets fp16 = {"precision.compute=\"fp16\"", "precision.loss_scale_start=256"};
  for (const Sets& layout : {Sets{}, Sets{kWhole}, Sets{kPartial}, fp16}) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(layout, " ")));
    const std::vector<double> want = validations(with(kBf16, layout));
    EXPECT_EQ(validations(with(with(kBf16, kPrepared), layout)), want);
    ASSERT_EQ(want.size(), 4U);
    EXPECT_EQ(want[2], want[0]) << "the values came back";
    EXPECT_NE(want[1], want[0]);
  }
}

// A step that is skipped changes nothing, and the next one reads what is there.
TEST(PreparedWeights, OfSkippedSteps) {
  const Sets sets = with(kCpu,
                         {"precision.compute=\"fp16\"",
                          "precision.loss_scale_start=1e12",
                          "precision.loss_scale_backoff=0.01",
                          "precision.loss_scale_hysteresis=1"});
  const Training without = train(tiny_config(), sets, {.steps = 6});
  EXPECT_EQ(without.updates[0], 0) << "no step is skipped";
  EXPECT_GT(without.updates.back(), 0) << "every step is skipped";
  const Training prepared = train(tiny_config(), with(sets, kPrepared), {.steps = 6});
  EXPECT_EQ(prepared.losses, without.losses);
  EXPECT_EQ(prepared.updates, without.updates);
  EXPECT_TRUE(prepared.parameters == without.parameters);
}

// --- Trainings as a user runs them ---

class PreparedRuns : public ::testing::Test {
 protected:
  // The losses of a run of `steps`, with validations.
  std::vector<double> run(const std::string& name,
                          const Sets& more,
                          i64 steps,
                          i64 stop = 0) const {
    Sets sets = with(kBf16,
                     {fmt::format("run.steps={}", steps),
                      "run.out=" + folder_.at(name),
                      "lr.warmup_steps=0",
                      "checkpoint.every_steps=2",
                      "data.validation=0.01",
                      "validation.every_steps=2",
                      "validation.samples=4"});
    run_trainer({tiny_config() + "[observers.metrics]\n", with(sets, more), stop});
    std::vector<double> losses = metric_of(folder_.at(name), "loss");
    const std::vector<double> validation = metric_of(folder_.at(name), "val_loss");
    losses.insert(losses.end(), validation.begin(), validation.end());
    return losses;
  }
  const TestFolder folder_;
};

TEST_F(PreparedRuns, ResumeFromACheckpoint) {
  const std::vector<double> whole = run("plain", {}, 6);
  run("resumed", kPrepared, 6, 2);
  EXPECT_EQ(run("resumed", kPrepared, 6), whole);
}

TEST_F(PreparedRuns, BeginWithAnotherRunsParameters) {
  run("first", {}, 4);
  const Sets from = {"checkpoint.init_from=" + folder_.at("first")};
  EXPECT_EQ(run("prepared", with(kPrepared, from), 4), run("plain", from, 4));
}

TEST_F(PreparedRuns, GenerateText) {
  run("trained", kPrepared, 4);
  const std::string step = find_checkpoints(folder_.at("trained"))[0];
  const auto logits = [&](bool prepared) {
    const Resolved config =
        resolve(Config::parse(read_index(step).info.config,
                              "index.json",
                              {"batch.global=1",
                               "batch.micro=1",
                               fmt::format("precision.prepare_weights={}", prepared)}),
                plugins());
    Generator generator(config, plugins(), step, 1);
    std::vector<float> all;
    std::vector<i32> text = generator.tokenizer().encode("the ");
    for (int i = 0; i < 4; ++i) {
      const std::vector<float> next = generator.sampler().logits(text);
      all.insert(all.end(), next.begin(), next.end());
      text.push_back(generator.sampler().next(text, {.temperature = 0}));
    }
    return all;
  };
  EXPECT_EQ(logits(true), logits(false));
}

TEST(PreparedWeights, HaveOneFormWhereNothingAsksForGradients) {
  const Resolved config =
      resolve(Config::parse(tiny_config(), "test", with(kBf16, kPrepared)), plugins());
  const RunSetup setup = derive_setup(config, plugins(), 1);
  const Rank rank = make_rank(rank_spec_of(setup), {});
  const PlacedModel model(rank, setup, {.forward_only = true});
  expect_forms(model.parts(), false);
}

// --- Refusals ---

std::string refusal(const Sets& sets, const PluginHost& host = plugins()) {
  return error_of([&] {
    const Config config = Config::parse(tiny_config(), "test", with(sets, kPrepared));
    checked_setup(resolve(config, host), host, 1, 1);
  });
}

TEST(PreparedWeights, AreRefusedWhereNothingWouldReadThem) {
  EXPECT_EQ(refusal(kBf16), "");
  EXPECT_THAT(refusal({}),
              ::testing::HasSubstr("[precision] prepare_weights = true: the device \"reference\" "
                                   "has no prepared form of fp32 weights"));
  EXPECT_THAT(refusal(kCpu),
              ::testing::HasSubstr("the device \"cpu\" has no prepared form of fp32 weights"));
  // Linears whose weights are not declared as such.
  Sets sets = with(kBf16, {"model.head.type=\"mutant_head\""});
  for (const char* slot : {"attention.qkv", "mlp.up"}) {
    sets.push_back(fmt::format("model.block.{}.type=\"mutant_column_linear\"", slot));
  }
  for (const char* slot : {"attention.proj", "mlp.down"}) {
    sets.push_back(fmt::format("model.block.{}.type=\"mutant_row_linear\"", slot));
  }
  EXPECT_THAT(refusal(sets, mutants()),
              ::testing::HasSubstr("[precision] prepare_weights = true: no linear layer of the "
                                   "model would read prepared weights"));
}

}  // namespace prepared_weights_test
}  // namespace tessera::testing

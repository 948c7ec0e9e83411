// bf16 and fp16 compute under any layout: one loss curve, up to what 16-bit roundings do.
#include <gmock/gmock.h>

#include <cstddef>
#include <set>
#include <utility>

#include "invariant_support.hpp"
#include "kernel/dry/dry_rank.hpp"
#include "kernel/train/setup/make_rank.hpp"
#include "mutants_support.hpp"
#include "precision_mutants_support.hpp"
#include "tessera/operation.hpp"

namespace tessera::testing {
namespace precision_invariant_test {

// The devices that compute in 16 bits.
const std::vector<std::string> kDevices = {"reference", "cpu"};

const std::string kRows = "parallel.sequence_parallel=true";
const std::string kGather = "model.block.attention.context=\"allgather\"";
const std::string kHeads = "model.block.attention.context=\"all_to_all\"";
const std::string kDistributed = "optimizer.type=\"distributed\"";
const std::string kNarrow = "parallel.gradient_dtype=\"bf16\"";
const Sets kStages = {"parallel.pipeline=2", "schedule.type=\"1f1b\""};
const Sets kFourStages = {"parallel.pipeline=2", "placement.layout=\"E|t|t|L\""};

struct Row {
  std::string name;
  Sets sets;
  Rounding rounding;
};

const std::vector<Row>& rows() {
  static const std::vector<Row> kAll = {
      {"micro1", {"batch.micro=1"}, Rounding::other},
      {"dp2", {"parallel.data=2"}, Rounding::same},
      {"dp4", {"parallel.data=4"}, Rounding::same},
      {"buckets", {"parallel.data=2", "parallel.bucket_elements=1000"}, Rounding::same},
      {"pp2", kStages, Rounding::same},
      {"pp2_dp2", with(kStages, {"parallel.data=2"}), Rounding::same},
      {"zbv_pp2", with(kFourStages, {"schedule.type=\"zbv\""}), Rounding::same},
      {"interleaved_pp2_recompute",
       with(kFourStages,
            {"schedule.type=\"interleaved_1f1b\"", "schedule.chunks=2", "recompute.mode=\"full\""}),
       Rounding::same},
      {"gpipe_pp2", {"parallel.pipeline=2", "schedule.type=\"gpipe\""}, Rounding::same},
      {"zb_h1_pp2", {"parallel.pipeline=2", "schedule.type=\"zb_h1\""}, Rounding::same},
      {"dualpipe_v_pp2", with(kFourStages, {"schedule.type=\"dualpipe_v\""}), Rounding::same},
      {"recompute", {"recompute.mode=\"full\""}, Rounding::same},
      {"selective_recompute", {"recompute.mode=\"selective\""}, Rounding::same},
      {"graphs_pp2", with(kStages, {"graph.type=\"partial\""}), Rounding::same},
      {"distributed_dp2", {"parallel.data=2", kDistributed}, Rounding::same},
      {"distributed_pp2_dp2", with(kStages, {"parallel.data=2", kDistributed}), Rounding::same},
      {"distributed_tp2_cp2_dp2_sp",
       {"parallel.tensor=2", "parallel.context=2", "parallel.data=2", kRows, kDistributed},
       Rounding::other},
      {"cp2_all_to_all", {"parallel.context=2", kHeads}, Rounding::other},
      {"tp2", {"parallel.tensor=2"}, Rounding::other},
      {"tp4_sp", {"parallel.tensor=4", kRows}, Rounding::other},
      {"tp2_dp2_sp", {"parallel.tensor=2", "parallel.data=2", kRows}, Rounding::other},
      {"cp2", {"parallel.context=2"}, Rounding::other},
      {"cp4", {"parallel.context=4"}, Rounding::other},
      {"cp2_allgather", {"parallel.context=2", kGather}, Rounding::other},
      {"tp2_cp2", {"parallel.tensor=2", "parallel.context=2"}, Rounding::other},
      {"pp2_tp2_sp", with(kStages, {"parallel.tensor=2", kRows}), Rounding::other},
      {"pp2_cp2", with(kStages, {"parallel.context=2"}), Rounding::other},
  };
  return kAll;
}

// Packs weights once a step, on the device that can.
const Sets kPrepared = {"precision.prepare_weights=true", "batch.micro=1"};
const std::vector<Row>& prepared_rows() {
  static const std::vector<Row> kAll = {
      {"prepared_micro1", kPrepared, Rounding::other},
      {"prepared_distributed_dp2",
       with(kPrepared, {"parallel.data=2", kDistributed}),
       Rounding::other},
      {"prepared_tp2_sp", with(kPrepared, {"parallel.tensor=2", kRows}), Rounding::other},
      {"prepared_pp2", with(kStages, kPrepared), Rounding::other},
      {"prepared_pp2_whole_step",
       with(with(kStages, kPrepared), {"graph.type=\"full_iteration\""}),
       Rounding::other},
  };
  return kAll;
}

struct Case {
  Row row;
  Narrow narrow;
};
void PrintTo(const Case& of, std::ostream* out) { *out << of.row.name; }

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::string& device : kDevices) {
    for (const std::string compute : {"bf16", "fp16"}) {
      for (const Row& row : rows()) all.push_back({row, {compute, device}});
      if (device != "cpu") continue;
      for (const Row& row : prepared_rows()) all.push_back({row, {compute, device}});
    }
  }
  return all;
}

class PrecisionInvariant : public ::testing::TestWithParam<Case> {};

TEST_P(PrecisionInvariant, Holds) {
  const auto& [row, narrow] = GetParam();
  const Findings found = check_narrow(plugins(), narrow, row.sets, row.rounding);
  EXPECT_TRUE(found.none()) << text(found);
}

std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  const auto& [row, narrow] = info.param;
  return narrow.device + "_" + narrow.compute + "_" + row.name;
}

INSTANTIATE_TEST_SUITE_P(Rows, PrecisionInvariant, ::testing::ValuesIn(cases()), case_name);

// Whether what is launched now belongs to a phase of the model, forward or backward.
class PhaseWatch final : public ActionObserver {
 public:
  void before(const Plan&, const PlanAction& action) override { in_phase_ = action.phase >= 0; }
  bool in_phase() const { return in_phase_; }

 private:
  bool in_phase_ = false;
};

bool lies_in(const TensorArg& tensor, const TensorArg& memory) {
  const std::byte* begin = memory.as<std::byte>();
  return tensor.as<std::byte>() >= begin && tensor.as<std::byte>() < begin + memory.bytes();
}

// What rank 0 writes in a floating dtype wider than 16 bits during the passes of a step: "attention
// out". Left out is what has to be so: statistics, as the rules of operations state them, single
// values (losses) or one of each row (the router's weight), and sums of parameters' gradients.
// Nothing is computed.
std::set<std::string> wide_outputs(const Sets& sets) {
  const Resolved config = resolve(Config::parse(tiny_config(), "test", sets), plugins());
  const RunSetup setup = derive_setup(config, plugins(), world_size(config.run));
  PhaseWatch watch;
  TensorArg gradients;
  std::set<std::string> found;
  DryEvents events;
  events.launched = [&](const Kernel& kernel, const void* args) {
    const auto* tensors = static_cast<const TensorArg*>(args);
    for (int i = kernel.tensors - kernel.outputs; watch.in_phase() && i < kernel.tensors; ++i) {
      const TensorArg& output = tensors[i];
      const bool wide = is_floating(output.dtype) && dtype_size(output.dtype) > 2;
      if (!output || !wide || lies_in(output, gradients)) continue;
      if (output.rank == 0 || output.shape[output.rank - 1] == 1) continue;
      if (kernel.rules == nullptr) {
        found.insert(kernel.operation);
      } else if (kernel.rules[i].type != TypeRule::statistic) {
        found.insert(fmt::format("{} {}", kernel.operation, kernel.rules[i].name));
      }
    }
  };
  const RankSpec spec = rank_spec_of(setup);
  const Rank rank = dry_rank(setup.layout, 0, make_device(spec, {}), std::move(events));
  PlacedModel model(rank, setup);
  TrainStep step(model);
  step.observe(watch);
  gradients = model.memory().gradients().arg();
  step.run();
  return found;
}

class PrecisionOnDevice : public ::testing::TestWithParam<std::string> {
 protected:
  std::string device() const { return fmt::format("device.type=\"{}\"", GetParam()); }
  Sets bf16() const { return {"precision.compute=\"bf16\"", device()}; }
};

TEST_P(PrecisionOnDevice, LearnsOver100StepsUnderAnyLayout) {
  const Training& wide = one_rank(100);
  const Training single = train(tiny_config(), bf16(), {.steps = 100});
  EXPECT_LT(single.losses.back(), single.losses.front() - 1.0);
  const Sets layout = with(bf16(), {"parallel.tensor=2", "parallel.data=2", kRows});
  const Training run = train(tiny_config(), layout, {.steps = 100});
  double apart = 0, bound = 0;
  for (std::size_t i = 0; i < 100; ++i) {
    apart = std::max(apart, std::abs(run.losses[i] - single.losses[i]));
    bound = std::max(bound, 2 * std::abs(single.losses[i] - wide.losses[i]));
  }
  EXPECT_LE(apart, bound);
}

TEST_P(PrecisionOnDevice, FormsHaveTheirDtypes) {
  const auto check = [](RankRun& run) {
    for (const auto& entry : run.parts().parameters()) {
      const Parameter& p = *entry.parameter;
      EXPECT_EQ(p.main.dtype(), DType::fp32) << p.name;
      EXPECT_EQ(p.grad.dtype(), DType::fp32) << p.name;
      EXPECT_EQ(p.compute.dtype(), DType::bf16) << p.name;
    }
    for (const Boundary& boundary : run.model().boundaries()) {
      for (const BoundarySlot& slot : boundary) EXPECT_EQ(slot.dtype, DType::bf16) << slot.name;
    }
    ASSERT_EQ(run.model().boundaries().size(), 1U);
  };
  train(tiny_config(), with(bf16(), kStages), {.steps = 1, .at_end = check});
}

TEST_P(PrecisionOnDevice, ActivationsAndTheirGradientsAreIn16BitsFromEndToEnd) {
  const Sets experts = {"model.block.mlp.type=\"moe\"",
                        "model.block.mlp.experts=4",
                        "model.block.mlp.top_k=2",
                        "model.block.mlp.ffn=8"};
  const Sets rms = {"model.block.norm.type=\"rmsnorm\"", "model.head.norm.type=\"rmsnorm\""};
  for (const Sets& layout : {Sets{},
                             Sets{"recompute.mode=\"full\""},
                             Sets{"parallel.tensor=2"},
                             Sets{"parallel.tensor=2", kRows},
                             Sets{"parallel.context=2", kHeads},
                             kStages,
                             experts,
                             with(experts, {"parallel.expert=2"}),
                             rms}) {
    EXPECT_THAT(wide_outputs(with(bf16(), layout)), ::testing::IsEmpty())
        << fmt::format("{}", fmt::join(layout, " "));
  }
  // Parts of one attention that come from several ranks are added in single precision.
  EXPECT_THAT(wide_outputs(with(bf16(), {"parallel.context=2"})),
              ::testing::ElementsAre("add out", "attention_merge out", "copy out"));
  // A pass in single precision would be seen.
  EXPECT_THAT(wide_outputs({device()}),
              ::testing::IsSupersetOf({"attention out",
                                       "attention_backward q_grad",
                                       "gelu out",
                                       "layernorm out",
                                       "matmul out"}));
}

TEST_P(PrecisionOnDevice, LossScaleIsOneForAllRanks) {
  const std::vector<std::pair<std::string, Sets>> layouts = {
      {"dp2", {"parallel.data=2"}},
      {"tp2_sp", {"parallel.tensor=2", kRows}},
      {"pp2", kStages},
      {"cp2", {"parallel.context=2"}},
      {"pp2_tp2", with(kStages, {"parallel.tensor=2"})},
      {"distributed_dp2", {"parallel.data=2", kDistributed}},
      {"dp2_bf16_gradients", {"parallel.data=2", kNarrow}},
      {"distributed_pp2_dp2", with(kStages, {"parallel.data=2", kDistributed})},
  };
  for (const auto& [name, sets] : layouts) {
    EXPECT_EQ(check_loss_scale(plugins(), GetParam(), sets), "") << name;
  }
}

// Three steps that overflow leave the initial values, and count as no update.
TEST_P(PrecisionOnDevice, ASkippedStepChangesNothing) {
  const Training run = train(tiny_config(),
                             {"precision.compute=\"fp16\"",
                              "precision.loss_scale_start=1099511627776",
                              fmt::format("device.type=\"{}\"", GetParam())},
                             {.steps = 3});
  EXPECT_THAT(run.updates, ::testing::ElementsAre(0, 0, 0));
  EXPECT_THAT(run.loss_scales, ::testing::ElementsAre(0x1p40, 0x1p39, 0x1p38));
  const Training none = train(tiny_config(), {}, {.steps = 0});
  EXPECT_EQ(run.parameters, none.parameters);
}

INSTANTIATE_TEST_SUITE_P(Devices,
                         PrecisionOnDevice,
                         ::testing::ValuesIn(kDevices),
                         [](const auto& info) { return info.param; });

Sets mutant(const std::string& path, const std::string& type, const std::string& mistake) {
  return {fmt::format("{}.type=\"mutant_{}\"", path, type),
          fmt::format("{}.mistake=\"{}\"", path, mistake),
          "check.replicas_every=0"};
}

TEST(PrecisionMutants, NormInBf16IsFound) {
  const auto found = [](const std::string& mistake) {
    const Sets sets = mutant("model.block.norm", "norm", mistake);
    return check_narrow(mutants(), {"bf16"}, with({"parallel.data=2"}, sets), Rounding::same);
  };
  EXPECT_TRUE(found("none").none()) << text(found("none"));
  const Findings wrong = found("in_bf16");
  EXPECT_NE(wrong.losses, "") << text(wrong);
  EXPECT_NE(wrong.gradients, "") << text(wrong);
}

TEST(PrecisionMutants, MainGradientInBf16IsFound) {
  const auto found = [](const std::string& mistake) {
    const Sets sets = mutant("model.block.mlp.up", "column_linear", mistake);
    return check_narrow(mutants(), {"bf16"}, with({"parallel.data=2"}, sets), Rounding::same);
  };
  EXPECT_TRUE(found("none").none()) << text(found("none"));
  const Findings wrong = found("bf16_gradient");
  EXPECT_NE(wrong.gradients, "") << text(wrong);
}

TEST(PrecisionMutants, LossScaleInTheNormIsFound) {
  const auto host = load_plugins();
  host->add_builtin(&register_scaled_norm);
  const Findings wrong = check_narrow(*host, {"fp16"}, {}, Rounding::same);
  EXPECT_NE(wrong.norms, "") << text(wrong);
}

// Small embeddings: the first norm makes the gradients of the first stage the largest by far, and
// they alone overflow.
TEST(PrecisionMutants, OverflowSeenByOneRankOnlyIsFound) {
  const Sets model = {"model.tied_embeddings=false",
                      "model.init_std=0.1",
                      "model.embedding.init_std=0.001",
                      "precision.loss_scale_start=65536"};
  const auto found = [&](const std::string& mistake) {
    const Sets sets = mutant("optimizer", "optimizer", mistake);
    return check_loss_scale(
        mutants(), "reference", with(kStages, with(sets, {"optimizer.clip=1"})), model);
  };
  EXPECT_EQ(found("none"), "");
  EXPECT_NE(found("own_overflow"), "");
}

}  // namespace precision_invariant_test
}  // namespace tessera::testing

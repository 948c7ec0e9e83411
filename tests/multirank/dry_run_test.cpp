// What `config check` finds before a rank starts: it plays one training step of each class of ranks
// over absent hardware, and says which component of the configuration an error comes from.
#include "kernel/train/run/dry_run.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "common/error_of.hpp"
#include "tessera/build.hpp"
#include "tessera/context.hpp"
#include "tessera/data.hpp"
#include "tessera/ops.hpp"
#include "training_support.hpp"
#include "wrong_linears_support.hpp"

namespace tessera::testing {
namespace dry_run_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// --- components, each with one mistake ---

// The same values; its backward pass fails.
Tensor broken(Context& cx, const Tensor& y) {
  Tensor z = y.view(y.shape());
  if (!cx.recording()) return z;
  const std::array<Tensor, 1> inputs = {y};
  const std::array<Tensor*, 1> outputs = {&z};
  cx.tape->record("broken", inputs, outputs, [](Context&, Gradients&) {
    fail("this operation has no gradient");
  });
  return z;
}

// A layer with the mistake that its configuration names: it takes dropout's random numbers of all
// rows, where it holds only its own ones, or its backward pass fails.
class WrongLayer final : public Layer {
 public:
  struct Config {
    std::string mistake = "none";
    static void describe(Schema<Config>& s) {
      s.field("mistake", &Config::mistake, "what to do wrong");
    }
  };
  WrongLayer(const Config& config, BuildContext& build)
      : region_(build.tensor_region()),
        mistake_(config.mistake),
        hidden_(build.slot("hidden")),
        row_ids_(build.slot("row_ids")),
        key_(build.random_site("drop")) {}
  std::vector<Phase> do_phases() override {
    return {{.scope = "mlp", .run = [this](Context& cx, Bundle& bundle) { run(cx, bundle); }}};
  }

 private:
  void run(Context& cx, Bundle& bundle) const {
    const Tensor x = bundle[hidden_];
    const Tensor rows =
        mistake_ == "all_rows" ? bundle[row_ids_] : region_.own_rows(bundle[row_ids_]);
    Tensor y = ops::dropout(cx, ops::scale(cx, x, 2), x, rows, 0.5, key_);
    bundle[hidden_] = mistake_ == "backward" ? broken(cx, y) : y;
  }
  TensorRegion region_;
  std::string mistake_;
  Slot hidden_, row_ids_;
  u64 key_;
};

// A norm with the mistake that its configuration names.
class Norm final : public Module {
 public:
  struct Config {
    i64 hidden = 0;
    std::string mistake = "none";
    static void describe(Schema<Config>& s) {
      s.field("hidden", &Config::hidden, "features").from("model.hidden");
      s.field("mistake", &Config::mistake, "what to do wrong");
    }
  };
  Norm(const Config& config, BuildContext& build) : mistake_(config.mistake) {
    if (mistake_ == "metric_twice") {
      build.metric({.name = "norm", .reduce = MetricReduce::mean});
      build.metric({.name = "norm", .reduce = MetricReduce::max});
    }
    const i64 features = mistake_ == "weight_shape" ? config.hidden / 2 : config.hidden;
    for (const char* name : {"weight", "bias"}) {
      ParameterSpec spec{.name = name, .shape = {features}};
      spec.placement = build.tensor_region().per_row();
      if (mistake_ == "replicated") spec.placement = Placement::replicated();
      if (mistake_ == "no_placement") spec.placement = {};
      parameters_.push_back(&build.parameter(spec));
    }
  }
  Tensor do_forward(Context& cx, const Tensor& x) const override {
    Tensor y = ops::layernorm(cx, x, *parameters_[0], *parameters_[1], 1e-5);
    if (mistake_ == "backward") return broken(cx, y);
    if (mistake_ == "result_shape") return y.slice(1, 0, y.dim(1) / 2);
    return y;
  }

 private:
  std::string mistake_;
  std::vector<Parameter*> parameters_;
};

// Tokens without a mask for any loss.
class Maskless final : public Dataset {
 public:
  using Config = NoConfig;
  Maskless(const Config&, DatasetArguments&) {}
  std::vector<FieldInfo> do_fields() const override {
    return {{"tokens", DType::i64, ""}, {"labels", DType::i64, ""}};
  }
  i64 do_size(SampleSet) const override { return 1000; }
  void do_read(SampleSet, i64, const SampleBuffers&) const override {}
  std::string do_fingerprint() const override { return "maskless"; }
};

const PluginHost& host() {
  static const std::unique_ptr<PluginHost> kHost = [] {
    auto loaded = load_plugins();
    loaded->add_builtin(+[](Registrar& r) {
      r.add<Layer, WrongLayer>("wrong_layer", "dropout by rows");
      r.add<Module, WithoutEnter>("without_enter", "a column linear");
      r.add<Module, WholeBias>("whole_bias", "a row linear");
      r.add<Module, Norm>("wrong_norm", "a norm");
      r.add<Dataset, Maskless>("maskless", "tokens only");
    });
    return loaded;
  }();
  return *kHost;
}

// --- checking ---

const std::string kRows = "[parallel]\ntensor = 2\nsequence_parallel = true\n";

// The problems of the small configuration with more tables, empty when there are none.
std::string check(const std::string& more, const std::vector<std::string>& sets = {}) {
  const Resolved config = resolve(Config::parse(tiny_config() + more, "run.toml", sets), host());
  return error_of<ConfigError>([&] { checked_setup(config, host(), world_size(config.run), 1); });
}

// "run.toml:LINE:COLUMN" of the value in the last line of `more` that begins with `key = `.
std::string place(const std::string& more, const std::string& key) {
  const std::string text = tiny_config() + more;
  const auto at = text.rfind("\n" + key + " = ");
  const auto line = std::count(text.begin(), text.begin() + static_cast<i64>(at) + 1, '\n') + 1;
  return fmt::format("run.toml:{}:{}", line, key.size() + 4);
}

std::string layer(const std::string& mistake) {
  return "[model.block.mlp]\nmistake = \"" + mistake + "\"\ntype = \"wrong_layer\"\n";
}
std::string norm(const std::string& mistake) {
  return "[model.block.norm]\nmistake = \"" + mistake + "\"\ntype = \"wrong_norm\"\n";
}

std::string moe(const std::string& keys) {
  return "[model.block.mlp]\n" + keys + "type = \"moe\"\n";
}

TEST(DryRun, WhatIsRightPasses) {
  EXPECT_EQ(check(""), "");
  EXPECT_EQ(check(kRows), "");
  EXPECT_EQ(check(kRows + norm("none")), "");
  EXPECT_EQ(check(kRows + layer("none")), "");
  EXPECT_EQ(check(moe("experts = 8\n"), {"parallel.tensor=2", "parallel.expert=4"}), "");
  EXPECT_EQ(check(kRows + moe("experts = 8\n"), {"parallel.expert_tensor=1"}), "");
  const std::string losses = moe(
      "experts = 8\nsequence_loss = 0.1\nmicrobatch_loss = 0.1\nglobal_loss = 0.1\nz_loss = 0.1\n");
  const std::string bias =
      "[model.block.mlp.router]\nscore = \"sigmoid\"\nbias_rate = 0.01\njitter = 0.1\n";
  EXPECT_EQ(check(kRows + losses + bias), "");
  EXPECT_EQ(check(losses + bias, {"parallel.tensor=2", "parallel.context=2"}), "");
  EXPECT_EQ(check(kRows + moe("experts = 8\nz_loss = 0.1\n") +
                  "[model.block.mlp.router]\ntype = \"expert_choice\"\n"),
            "");
  const std::string graphs =
      "[graph]\ntype = \"partial\"\nscope = [\"moe_dispatch\", \"moe_experts\", \"moe_combine\"]\n";
  const std::string whole = "[graph]\ntype = \"full_iteration\"\n";
  const std::string choice = "[model.block.mlp.router]\ntype = \"expert_choice\"\n";
  const std::string pad = "pad_to_capacity = true\n";
  for (const std::string& captured : {graphs, whole}) {
    EXPECT_EQ(check(captured + moe("experts = 8\n") + choice, {"parallel.expert=2"}), "");
    EXPECT_EQ(check(captured + moe("experts = 8\n" + pad) + choice,
                    {"parallel.expert=2", "parallel.context=2"}),
              "");
  }
  EXPECT_EQ(check(layer("all_rows")), "") << "without sequence parallelism all rows are own ones";
}

// Tests give it to ranks that they start as threads; a run starts processes.
TEST(DryRun, ThreadsJoinNoProcesses) {
  for (const std::string ranks : {"1", "2"}) {
    const std::string problem = check("", {"comm.type=threads", "parallel.tensor=" + ranks});
    EXPECT_THAT(
        problem,
        StartsWith("--set #1: [comm] type = \"threads\" joins ranks that are threads of one "
                   "process, as tests start them, and a run has a process for each rank: "
                   "choose \"auto\", \"gloo\", "));
    EXPECT_THAT(problem, HasSubstr(", \"shm\""));
    EXPECT_EQ(check("", {"comm.type=shm", "parallel.tensor=" + ranks}), "");
  }
}

// How many ranks `sets` ask for.
i64 ranks_of(const std::vector<std::string>& sets) {
  return world_size(resolve(Config::parse(tiny_config(), "test", sets), host()).run);
}

TEST(DryRun, AsManyRanksAsFitBothDecompositions) {
  EXPECT_EQ(ranks_of({"parallel.tensor=2", "parallel.pipeline=2"}), 4);
  EXPECT_EQ(ranks_of({"parallel.expert=4"}), 4);
  EXPECT_EQ(ranks_of({"parallel.tensor=2", "parallel.expert=4"}), 8) << "expert_tensor is tensor";
  EXPECT_EQ(ranks_of({"parallel.tensor=2", "parallel.expert=4", "parallel.expert_tensor=1"}), 4);
  EXPECT_EQ(ranks_of({"parallel.context=8", "parallel.expert=8"}), 8) << "folding";
  EXPECT_EQ(ranks_of({"parallel.tensor=2", "parallel.context=3", "parallel.expert_tensor=4"}), 12);
  EXPECT_EQ(ranks_of({"parallel.expert=4", "parallel.data=8", "parallel.pipeline=2"}), 16);
  EXPECT_EQ(ranks_of({"parallel.expert=4", "comm.ranks=6"}), 6) << "whether it fits or not";
}

struct Mistake {
  std::string name, more, what;
  std::vector<std::string> sets = {};
  std::string key = "";  ///< whose place is told; left out: the one that `what` begins with

  std::string told_key() const {
    static const std::regex kBegin(R"(^(?:\[[\w.]+\] |[\w.]+\.)(\w+))");
    std::smatch found;
    return std::regex_search(what, found, kBegin) && key.empty() ? found[1].str() : key;
  }
};

const std::string kPipeline = "[parallel]\npipeline = 2\n[schedule]\ntype = \"1f1b\"\n";

std::vector<Mistake> mistakes() {
  return {
      {"rows_of_other_ranks",
       kRows + layer("all_rows"),
       "[model.block.mlp] type = \"wrong_layer\": forward pass of \"mlp\" in layers.0: dropout: "
       "row_ids must be i64 [8], is i64 [16]"},
      {"region_that_is_not_entered",
       kRows +
           "[model.block.mlp.up]\ntype = \"without_enter\"\n[model.block.mlp]\ntype = \"mlp\"\n",
       "[model.block.mlp] type = \"mlp\": forward pass of \"mlp\" in layers.0: dropout: residual "
       "must be fp32 [4, 16], is fp32 [8, 16]"},
      {"experts_that_no_layer_has",
       "[parallel]\nexpert = 4\n",
       "[parallel] expert = 4: no layer of the model has experts"},
      {"parts_of_experts_that_no_layer_has",
       "[parallel]\nexpert_tensor = 2\n",
       "[parallel] expert_tensor = 2: no layer of the model has experts"},
      {"experts_that_do_not_divide",
       "[parallel]\nexpert = 4\n" + moe("experts = 6\n"),
       "[model.block.mlp] experts: 6 experts do not divide among parallel.expert = 4 ranks"},
      {"features_of_experts_that_do_not_divide",
       "[parallel]\nexpert_tensor = 8\n" + moe("experts = 2\nffn = 100\n"),
       "[model.block.mlp] ffn: 100 inner features do not divide among parallel.expert_tensor = 8 "
       "ranks",
       {"batch.micro=1"}},
      {"more_choices_than_experts",
       moe("experts = 2\ntop_k = 3\n"),
       "[model.block.mlp] top_k: 3 of 2 experts"},
      {"unequal_groups_of_experts",
       moe("experts = 8\n") + "[model.block.mlp.router]\ngroups = 3\n",
       "[model.block.mlp.router] groups: 8 experts do not form 3 equal groups"},
      {"choices_that_do_not_divide_among_groups",
       "[model.block.mlp.router]\ngroups = 4\ngroup_top_k = 2\n" + moe("experts = 8\ntop_k = 5\n"),
       "[model.block.mlp] top_k: 5 is not a multiple of group_top_k = 2"},
      {"padding_without_a_capacity",
       moe("experts = 2\npad_to_capacity = true\n"),
       "[model.block.mlp] pad_to_capacity: needs capacity_factor"},
      {"drops_without_a_capacity",
       moe("experts = 2\ndrop = \"position\"\n"),
       "[model.block.mlp] drop: needs capacity_factor"},
      {"scope_without_a_capacity",
       moe("experts = 2\ncapacity_scope = \"rank\"\n"),
       "[model.block.mlp] capacity_scope: needs capacity_factor"},
      {"gate_without_shared_experts",
       moe("experts = 2\nshared_gate = true\n"),
       "[model.block.mlp] shared_gate: needs shared_ffn"},
      {"overlap_without_shared_experts",
       moe("experts = 2\nshared_overlap = true\n"),
       "[model.block.mlp] shared_overlap: needs shared_ffn"},
      {"features_of_shared_experts_that_do_not_divide",
       "[parallel]\ntensor = 4\n" + moe("experts = 4\nshared_ffn = 10\n"),
       "[model.block.mlp] shared_ffn: 10 inner features do not divide among parallel.tensor = 4 "
       "ranks"},
      {"bias_of_a_score_that_has_none",
       moe("experts = 8\n") + "[model.block.mlp.router]\nbias_rate = 0.001\n",
       "[model.block.mlp.router] bias_rate: needs score = \"sigmoid\" or \"sqrt_softplus\""},
      {"bias_that_stays_of_a_score_that_has_none",
       moe("experts = 8\n") + "[model.block.mlp.router]\nbias = true\n",
       "[model.block.mlp.router] bias: needs score = \"sigmoid\" or \"sqrt_softplus\""},
      {"rate_of_a_bias_that_is_not_there",
       moe("experts = 8\n") +
           "[model.block.mlp.router]\nscore = \"sigmoid\"\nbias = false\nbias_rate = 0.001\n",
       "[model.block.mlp.router] bias: is false, and bias_rate is above 0"},
      {"loads_of_a_step_counted_twice",
       "[recompute]\nmode = \"full\"\n" + moe("experts = 8\nglobal_loss = 0.01\n"),
       "[model.block.mlp] type = \"moe\": forward pass of \"moe_router\" in layers.1: "
       "layers.1.mlp: global_loss counts the rows of a step in the order of the forward passes"},
      {"balance_of_experts_that_choose",
       "[model.block.mlp.router]\ntype = \"expert_choice\"\n" +
           moe("experts = 8\nsequence_loss = 0.01\n"),
       "[model.block.mlp] type = \"moe\": forward pass of \"moe_router\" in layers.0: "
       "layers.0.mlp: "
       "the experts of its router choose their rows, so their loads are equal: leave "
       "sequence_loss, microbatch_loss and global_loss out"},
      {"rows_that_do_not_divide_among_routers",
       "[parallel]\ntensor = 4\n" + moe("experts = 8\n"),
       "[model.block.mlp] type: 6 rows of a microbatch, of which each rank routes its share, do "
       "not divide among parallel.tensor = 4 ranks",
       {"batch.micro=1", "batch.sequence_length=6"}},
      {"weight_of_a_wrong_shape",
       norm("weight_shape"),
       "[model.block.norm] type = \"wrong_norm\": forward pass of \"attn\" in layers.0: layernorm: "
       "weight must be fp32 [16], is fp32 [8]"},
      {"weight_of_a_wrong_shape_in_a_pipeline",
       kPipeline + norm("weight_shape"),
       "[model.block.norm] type = \"wrong_norm\": layernorm: weight must be fp32 [16], is fp32 "
       "[8]"},
      // Found where it does not fit: by what takes it.
      {"result_of_a_wrong_shape",
       norm("result_shape") + "[model.block.attention.qkv]\ntype = \"column_linear\"\n",
       "[model.block.attention.qkv] type = \"column_linear\": forward pass of \"attn\" in "
       "layers.0: matmul: the inner sizes 8 of a and 16 of b (transposed) differ"},
      {"bias_on_own_rows",
       kRows + "[model.block.mlp.down]\ntype = \"whole_bias\"\n",
       "declare it with .placement = build.tensor_region().per_row()",
       {},
       "type"},
      {"placement_left_out",
       kRows + norm("no_placement"),
       "[model.block.norm] type = \"wrong_norm\": parameter \"layers.0.attention_norm.weight\" "
       "[16] "
       "says nothing of the tensor axis: cut it with a Split, or give its placement"},
      {"gradient_that_is_not_summed",
       kRows + norm("replicated"),
       "[model.block.norm] type = \"wrong_norm\": parameter \"layers.1.mlp_norm.weight\": its "
       "gradient"},
      {"error_in_a_backward_closure",
       layer("backward"),
       "[model.block.mlp] type = \"wrong_layer\": backward pass of \"mlp\" in layers.1: this "
       "operation has no gradient"},
      {"error_in_a_backward_closure_of_a_whole_step",
       layer("backward"),
       "[model.block.mlp] type = \"wrong_layer\": backward pass of \"mlp\" in layers.1: this "
       "operation has no gradient",
       {"graph.type=full_iteration"}},
      {"error_in_a_backward_closure_of_a_module",
       norm("backward"),
       "[model.block.norm] type = \"wrong_norm\": backward pass of \"mlp\" in layers.1: this "
       "operation has no gradient"},
      {"metric_in_two_ways",
       norm("metric_twice"),
       "[model.block.norm] type = \"wrong_norm\": metric \"norm\" is reduced in two ways"},
      {"precision_that_the_device_lacks",
       "[precision]\ncompute = \"fp64\"\nmain = \"fp64\"\n[model.embedding]\ntype = "
       "\"embedding\"\n",
       "on the device \"cpu\" takes fp32, fp16, bf16 for table, not fp64: choose another precision "
       "or device",
       {"device.type=cpu"},
       "type"},
      {"main_narrower_than_compute",
       "[precision]\ncompute = \"fp64\"\n",
       "[precision] compute = \"fp64\" adds gradients in fp64, but main = \"fp32\"; set both to "
       "\"fp64\", or"},
      {"main_wider_than_gradients",
       "[precision]\ncompute = \"bf16\"\nmain = \"fp64\"\n",
       "[precision] compute = \"bf16\" adds gradients in fp32, but main = \"fp64\"",
       {},
       "main"},
      {"loss_scale_without_effect",
       "[precision]\ncompute = \"bf16\"\nloss_scale = 1024\n",
       "[precision] loss_scale = 1024 has no effect: compute = \"bf16\" needs no scale"},
      {"loss_scale_that_starts_too_low",
       "[precision]\ncompute = \"fp16\"\nloss_scale_start = 2\nloss_scale_min = 4\n",
       "[precision] loss_scale_start = 2 is below loss_scale_min = 4"},
      {"loss_without_a_mask",
       "[model.head]\ntype = \"lm_head\"\n",
       "[model.head] type = \"lm_head\": the dataset has no mask for the loss \"lm\"",
       {"data.type=maskless"}},
      {"unknown_recompute_scope",
       "[recompute]\nmode = \"selective\"\nscopes = [\"attn\", \"atn\"]\n",
       "[recompute] scopes has \"atn\"; the model's blocks have attn, mlp"},
      {"recompute_without_scopes",
       "[recompute]\nmode = \"selective\"\nscopes = []\n",
       "recomputes nothing",
       {},
       "scopes"},
      {"recompute_scopes_without_effect",
       "[recompute]\nscopes = [\"mlp\"]\n",
       "[recompute] scopes has no effect: mode = \"none\" computes nothing again; set mode = "
       "\"selective\", or scopes = []"},
      {"unknown_graph_scope",
       "[graph]\ntype = \"partial\"\nscope = [\"attn\", \"mpl\"]\n",
       "[graph] scope: no phase is called \"mpl\"; blocks have attn, mlp"},
      {"graph_scope_of_dynamic_shapes",
       "[graph]\ntype = \"partial\"\nscope = [\"attn\", \"moe_dispatch\"]\n",
       "[graph] scope: the shapes of \"moe_dispatch\" depend on data; pad_to_capacity or "
       "expert_choice fixes them",
       {"model.block.mlp.type=moe", "model.block.mlp.experts=4", "parallel.expert=2"}},
      {"graph_scope_of_experts_that_choose_from_cut_sequences",
       "[graph]\ntype = \"partial\"\nscope = [\"moe_experts\"]\n"
       "[model.block.mlp.router]\ntype = \"expert_choice\"\n",
       "[graph] scope: the shapes of \"moe_experts\" depend on data; pad_to_capacity or "
       "expert_choice fixes them",
       {"model.block.mlp.type=moe",
        "model.block.mlp.experts=4",
        "parallel.expert=2",
        "parallel.context=2"}},
      {"graph_that_is_recomputed_in_part",
       "[graph]\ntype = \"partial\"\n[recompute]\nmode = \"selective\"\nscopes = [\"attn\"]\n",
       "[recompute] scopes: \"attn\" is in one graph with \"mlp\": recompute both or none"},
      {"graph_of_routing_that_is_recomputed_in_part",
       "[graph]\ntype = \"partial\"\nscope = [\"attn\", \"moe_router\", \"moe_preprocess\"]\n"
       "[recompute]\nmode = \"selective\"\nscopes = [\"moe_router\"]\n",
       "[recompute] scopes: \"moe_router\" is in one graph with \"attn\": recompute both or none",
       {"model.block.mlp.type=moe", "model.block.mlp.experts=4"}},
      {"check_of_graphs_without_any",
       "graphs_every = 5\n",
       "[check] graphs_every = 5 has no effect: [graph] type = \"none\" captures nothing"},
      {"whole_step_with_dynamic_shapes",
       "[graph]\ntype = \"full_iteration\"\n",
       "[graph] type: \"full_iteration\" captures every phase, and the shapes of \"moe_combine\", "
       "\"moe_dispatch\", \"moe_experts\" depend on data; pad_to_capacity or expert_choice fixes "
       "them, type = \"partial\" captures the other phases",
       {"model.block.mlp.type=moe", "model.block.mlp.experts=4", "parallel.expert=2"}},
      {"check_of_a_graph_of_a_whole_step",
       "graphs_every = 5\n[graph]\ntype = \"full_iteration\"\n",
       "[check] graphs_every = 5 compares graphs of single phases, and [graph] type = "
       "\"full_iteration\" has one of a whole step: choose \"partial\" to compare"},
      {"skipped_bad_steps_in_a_graph_of_a_whole_step",
       "on_bad_step = \"skip\"\n[graph]\ntype = \"full_iteration\"\n",
       "[check] on_bad_step = \"skip\" reads each loss on the host before the update, which is "
       "inside the graph of [graph] type = \"full_iteration\": choose \"stop\" or \"rewind\", or "
       "type = \"partial\""},
      {"group_that_matches_nothing",
       "[optimizer.groups.heads]\nmatch = \"haed.*\"\n",
       "optimizer.groups.heads.match: \"haed.*\" is the name or tag of no parameter"},
      {"group_that_matches_nothing_on_any_stage",
       kPipeline + "[optimizer.groups.heads]\nmatch = \"haed.*\"\n",
       "optimizer.groups.heads.match: \"haed.*\" is the name or tag of no parameter"},
  };
}

void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.name; }

class DryRunFinds : public ::testing::TestWithParam<Mistake> {};

TEST_P(DryRunFinds, TheMistakeAndItsPlace) {
  const Mistake& mistake = GetParam();
  const std::string found = check(mistake.more, mistake.sets);
  EXPECT_THAT(found, StartsWith(place(mistake.more, mistake.told_key()) + ": "));
  EXPECT_THAT(found, HasSubstr(mistake.what));
}

INSTANTIATE_TEST_SUITE_P(All, DryRunFinds, ::testing::ValuesIn(mistakes()), [](const auto& info) {
  return info.param.name;
});

// Without sequence parallelism the shapes fit, and the gradient of what was not entered is a part.
TEST(DryRun, FindsAGradientThatIsNotSummed) {
  EXPECT_THAT(check("[parallel]\ntensor = 2\n[model.block.mlp.up]\ntype = \"without_enter\"\n"),
              AllOf(HasSubstr("parameter \"layers.1.mlp_norm.weight\": its gradient"),
                    HasSubstr("what goes into a region has to enter() it")));
}

// The parameters of a group may all be on one stage.
TEST(DryRun, AcceptsGroupsOfOtherStages) {
  EXPECT_EQ(check(kPipeline,
                  {"optimizer.groups.a.match=head.*", "optimizer.groups.b.match=tag:embedding"}),
            "");
}

TEST(DryRun, KeysThatTheOthersLeaveWithoutEffect) {
  const std::pair<const char*, const char*> kUnused[] = {
      {"precision.loss_scale_window=10", "[precision] loss_scale_window has no effect: compute"},
      {"check.bad_steps=5", "[check] bad_steps has no effect: on_bad_step = \"stop\""},
      {"check.loss_window=5", "[check] loss_window has no effect: loss_rise = 0"},
      {"validation.samples=5", "[validation] samples has no effect: every_steps = 0"},
      {"validation.sample_prompt=x", "[validation] sample_prompt has no effect: sample_tokens = 0"},
  };
  for (const auto& [set, text] : kUnused) {
    EXPECT_THAT(check("", {set}), StartsWith(std::string("--set #1: ") + text));
  }
  EXPECT_THAT(
      check(
          "",
          {"precision.loss_scale_min=2.0", "precision.loss_scale=128.0", "precision.compute=fp16"}),
      StartsWith("--set #1: [precision] loss_scale_min has no effect: loss_scale = 128"));
  EXPECT_THAT(check("", {"optimizer.state_dtype=bf16", "optimizer.rule.type=sgd"}),
              HasSubstr("optimizer.state_dtype has no effect: the rule keeps no state"));
  // A run may leave out what its file asks for.
  EXPECT_EQ(check("", {"validation.samples=5", "validation.every_steps=0"}), "");
  EXPECT_EQ(check("", {"check.bad_steps=5", "check.on_bad_step=stop"}), "");
  // A dumped configuration has all keys, as they are by default.
  EXPECT_EQ(check("", {"precision.loss_scale_window=1000", "check.bad_steps=3"}), "");
}

// Each stage makes its own copy of a tied table.
TEST(DryRun, TiedTablesBeginAlike) {
  for (const std::string pipeline : {"parallel.pipeline=1", "parallel.pipeline=2"}) {
    EXPECT_THAT(check("", {pipeline, "schedule.type=1f1b", "model.embedding.init_std=0.1"}),
                AllOf(HasSubstr("[model.head] type = \"lm_head\" (the default): shared parameter "
                                "\"embedding.weight\" is declared with initial values normal, "
                                "deviation 0.1 by "),
                      HasSubstr("[model.embedding] type = \"embedding\" (the default) and normal, "
                                "deviation 0.0")));
    EXPECT_EQ(check("",
                    {pipeline,
                     "schedule.type=1f1b",
                     "model.embedding.init_std=0.1",
                     "model.head.init_std=0.1"}),
              "");
    EXPECT_EQ(check("",
                    {pipeline,
                     "schedule.type=1f1b",
                     "model.tied_embeddings=false",
                     "model.embedding.init_std=0.1"}),
              "");
  }
}

// One mistake is made again in each layer, and on each pipeline rank.
TEST(DryRun, ShowsTheFirstOfManyParameters) {
  for (const std::string pipeline : {"1", "2"}) {
    const std::string found =
        check(kRows + norm("replicated"),
              {"model.layers=24", "parallel.pipeline=" + pipeline, "schedule.type=1f1b"});
    EXPECT_EQ(std::ranges::count(found, '\n'), 3) << found;
    EXPECT_THAT(found, HasSubstr("[model.block.norm] type = \"wrong_norm\": and 93 more like it"));
  }
}

// What is wrong in several places is said at once.
TEST(DryRun, FindsSeveralMistakes) {
  const std::string more = "[recompute]\nmode = \"selective\"\nscopes = [\"atn\"]\n";
  const std::string found = check(more, {"checkpoint.resume=gone", "optimizer.groups.a.match=b"});
  EXPECT_THAT(found,
              AllOf(HasSubstr("--set #1: [checkpoint] resume: "),
                    HasSubstr("--set #2: optimizer.groups.a.match: \"b\"")));
}

TEST(DryRun, RanksOfAClassAreTriedOnce) {
  Layout layout;
  layout.world = 16;
  layout.tensor = layout.context = layout.pipeline = 2;
  const std::vector<RankClass> classes = rank_classes(RankGenerator(layout));
  ASSERT_EQ(classes.size(), 4U);
  for (const RankClass& of : classes) EXPECT_EQ(of.ranks, 4);
  EXPECT_EQ(classes.front().first, 0);
}

}  // namespace dry_run_test
}  // namespace tessera::testing

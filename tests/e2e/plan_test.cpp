// `tessera plan` as a user meets it.
#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "program_support.hpp"
#include "tessera/types.hpp"

namespace tessera {
namespace plan_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::run_tessera;
using ::testing::StartsWith;
using testing::TestFolder;

const std::string kConfigs = TESSERA_SOURCE_DIR "/configs/";
const std::string kDgx2 = kConfigs + "hardware/v100-dgx2.toml";
const std::string kH100 = kConfigs + "hardware/h100-dgx.toml";

nlohmann::json plan(std::vector<std::string> arguments, int exit_code = 0) {
  arguments.insert(arguments.begin(), "plan");
  arguments.push_back("--json");
  const ProcessResult result = run_tessera(std::move(arguments));
  EXPECT_EQ(result.exit_code, exit_code) << result.err;
  return nlohmann::json::parse(result.out);
}

// A configuration whose data is nowhere; its model takes the vocabulary of the tokenizer.
std::vector<std::string> small(std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {
      kConfigs + "shakespeare.toml", "--set", "data.path=\"nowhere.txt\""};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

struct Scaling {
  std::string name;
  i64 ranks;
  double billions;
};
void PrintTo(const Scaling& of, std::ostream* out) { *out << of.name; }

class ScalingStudy : public ::testing::TestWithParam<Scaling> {};

TEST_P(ScalingStudy, IsPlanned) {
  const auto p =
      plan({kConfigs + "scaling/gpt2_" + GetParam().name + ".toml", "--hardware", kDgx2});
  EXPECT_EQ(p["world_size"], GetParam().ranks);
  EXPECT_NEAR(p["parameters"].get<double>() / 1e9, GetParam().billions, 0.06);
  EXPECT_LT(p["ranks"][0]["peak_memory"]["total"].get<i64>(), i64{32} << 30);  // of a V100
  EXPECT_GT(p["step_seconds"].get<double>(), 0.5);
  EXPECT_LT(p["step_seconds"].get<double>(), 5);
  EXPECT_GT(p["mfu"].get<double>(), 0.1);
  EXPECT_LT(p["mfu"].get<double>(), 0.5);
}

INSTANTIATE_TEST_SUITE_P(Paper,
                         ScalingStudy,
                         ::testing::Values(Scaling{"1.2b", 64, 1.2},
                                           Scaling{"2.5b", 128, 2.5},
                                           Scaling{"4.2b", 256, 4.2},
                                           Scaling{"8.3b", 512, 8.3}),
                         [](const auto& info) { return "gpt2_" + std::to_string(info.index); });

TEST(ScalingStudy, OfLlama3IsAsLargeAsPublished) {
  const auto p = plan({kConfigs + "scaling/llama3_8b.toml", "--hardware", kH100});
  EXPECT_EQ(p["world_size"], 64);
  EXPECT_EQ(p["parameters"], 8'030'261'248);
  EXPECT_GT(p["mfu"].get<double>(), 0.2);
  EXPECT_LT(p["mfu"].get<double>(), 0.6);
}

struct Experts {
  std::string name;
  i64 ranks;
  double billions, active;
};
void PrintTo(const Experts& of, std::ostream* out) { *out << of.name; }

class LargeExperts : public ::testing::TestWithParam<Experts> {};

TEST_P(LargeExperts, ArePlanned) {
#ifdef __SANITIZE_THREAD__
  if (GetParam().billions > 100) GTEST_SKIP() << "its 2.4 TiB of addresses are more than TSan has";
#endif
  const std::string config = kConfigs + "scaling/moe_" + GetParam().name + ".toml";
  const auto p = plan({config, "--hardware", kH100});
  EXPECT_EQ(p["world_size"], GetParam().ranks);
  EXPECT_GT(p["mfu"].get<double>(), 0.05);
  EXPECT_LT(p["mfu"].get<double>(), 0.5);
  EXPECT_THAT(p["notes"].dump(), HasSubstr("planned with their mean load"));
  const double half_percent = 0.005;
  EXPECT_NEAR(p["parameters"].get<double>() / 1e9 / GetParam().billions, 1, half_percent);
  EXPECT_NEAR(p["active_parameters"].get<double>() / 1e9 / GetParam().active, 1, 0.05);
}

TEST(Overlap, IsPlannedWithItsGain) {
  const std::string mixtral = kConfigs + "scaling/moe_mixtral_8x7b.toml";
  const auto p = plan({mixtral});
  EXPECT_EQ(p["overlap"], false);
  EXPECT_EQ(p["advice"]["other_overlap"]["set"], "schedule.overlap=true");
  EXPECT_GT(p["advice"]["other_overlap"]["step_seconds"].get<double>(), 0);
  EXPECT_THAT(run_tessera({"plan", mixtral}).out,
              HasSubstr("\noverlap of passes (schedule.overlap = false): step "));
  EXPECT_FALSE(plan(small())["advice"].contains("other_overlap")) << "there is nothing to hide";
}

TEST(UnevenExperts, MoreLoadTakesLonger) {
  const std::string mixtral = kConfigs + "scaling/moe_mixtral_8x7b.toml";
  const auto even = plan({mixtral}), uneven = plan({mixtral, "--imbalance", "1.3"});
  EXPECT_GT(uneven["step_seconds"].get<double>(), even["step_seconds"].get<double>());
  EXPECT_EQ(uneven["model_flops"], even["model_flops"]);
  EXPECT_THAT(uneven["notes"].dump(), HasSubstr("with 1.3 times their mean load"));
  EXPECT_THAT(run_tessera({"plan", mixtral, "--imbalance", "1.3", "--set", "parallel.expert=1"}),
              Exits(2, "--imbalance 1.3: parallel.expert = 1, so that every rank"));
  EXPECT_THAT(run_tessera({"plan", mixtral, "--imbalance", "0.9"}), Exits(2, "--imbalance"));
}

INSTANTIATE_TEST_SUITE_P(Published,
                         LargeExperts,
                         ::testing::Values(Experts{"mixtral_8x7b", 512, 46.7, 12.9},
                                           Experts{"deepseek_671b", 2048, 671, 37}),
                         [](const auto& info) { return info.param.name; });

TEST(Plan, TellsPeopleWhatARunWouldDo) {
  std::vector<std::string> arguments = small({"--set", "parallel.tensor=2"});
  arguments.insert(arguments.begin(), "plan");
  EXPECT_THAT(run_tessera(std::move(arguments)),
              Prints(0,
                     StartsWith("shakespeare: 2 ranks = tensor 2 × "),
                     "groups\n  tp ",
                     "peak memory ",
                     "all_reduce",
                     "\nprediction: step "));
}

TEST(Plan, NamesTheHardwareTable) {
  const auto text = [](std::vector<std::string> more) {
    std::vector<std::string> arguments = small(std::move(more));
    arguments.insert(arguments.begin(), "plan");
    return run_tessera(std::move(arguments)).out;
  };
  EXPECT_THAT(text({}), HasSubstr("hardware table: built in; `tessera calibrate` measures"));
  EXPECT_THAT(text({"--hardware", kDgx2}), HasSubstr("hardware table: " + kDgx2 + "\n"));
  EXPECT_EQ(plan(small())["hardware_table"], "built in");
}

// Under gloo a rank takes as much as it gets to be added up.
TEST(Plan, CountsWhatACommunicatorTakes) {
  const auto memory = [](const std::string& communicator) {
    const auto p = plan(small({"--set", "parallel.data=2", "--set", "comm.type=" + communicator}));
    return p["ranks"][0]["peak_memory"];
  };
  const auto shm = memory("shm"), gloo = memory("gloo");
  EXPECT_EQ(shm["communicator"], 0);
  // All gradient buckets may be under way at once; the allocator rounds.
  EXPECT_GE(gloo["communicator"].get<double>(), 0.98 * gloo["gradients"].get<double>());
  EXPECT_EQ(gloo["held"].get<i64>(), shm["held"].get<i64>() + gloo["communicator"].get<i64>());
  EXPECT_GE(shm["held"], shm["total"]);
  EXPECT_GE(shm["reserved"], shm["held"]);
}

TEST(Calibrate, WritesATableThatPlanTakes) {
  const TestFolder folder;
  const std::string file = folder.path() / "here.toml";
  EXPECT_THAT(
      run_tessera({"calibrate", "--out", file, "--threads", "1", "--name", "a \"fast\" \\ host"}),
      Prints(0, "--hardware " + file));
  const std::string table = testing::read_file(file);
  for (const char* text : {"ranks_per_host = 2",
                           "# 16 operations on few elements: ",
                           "\ngraph_latency = ",
                           "# fp32 [1024, 1024] x [1024, 1024]: ",
                           "# gelu: ",
                           "# all_reduce of 4 KiB by shm: ",
                           "# all_gather of 64 KiB by shm: ",
                           "# reduce_scatter of 1024 KiB by gloo: ",
                           "# all_to_all of 16384 KiB by gloo: ",
                           "# all_reduce of 16384 KiB by gloo: "}) {
    EXPECT_THAT(table, HasSubstr(text));
  }
  const auto p = plan(small({"--hardware", file, "--set", "parallel.data=2"}));
  EXPECT_EQ(p["hardware"], "a \"fast\" \\ host");
  EXPECT_GT(p["mfu"].get<double>(), 0);
  EXPECT_LT(p["mfu"].get<double>(), 1);
}

TEST(Calibrate, WhatItCannotMeasureIsAnError) {
  EXPECT_THAT(
      run_tessera({"calibrate", "--device", "cpu", "--out", "/there/is/no/folder/host.toml"}),
      Exits(1, "there is no folder /there/is/no/folder"));
  EXPECT_THAT(run_tessera({"calibrate", "--device", "gpu"}), Exits(2, "device/gpu"));
}

TEST(Plan, FillsAWorldWithReplicas) {
  const auto p = plan(small({"--set", "parallel.tensor=2", "--world", "4"}));
  EXPECT_EQ(p["layout"]["data"], 2);
  EXPECT_EQ(p["groups"]["dp"]["ranks"], nlohmann::json::parse("[[0, 2], [1, 3]]"));
}

TEST(Plan, KnowsTheVocabularyWithoutTheData) {
  const auto own = plan(small()), given = plan(small({"--set", "model.vocab=256"}));
  EXPECT_EQ(own["parameters"], given["parameters"]);
  const std::string note = own["notes"][0];
  EXPECT_THAT(note, HasSubstr("nowhere.txt"));
}

TEST(Plan, DrawsTheTimeline) {
  const TestFolder folder;
  const std::string file = folder.path() / "step.svg";
  plan(small({"--svg", file}));
  EXPECT_THAT(testing::read_file(file),
              AllOf(HasSubstr("<svg"), HasSubstr(">time in seconds</text>")));
}

TEST(Plan, SaysWhetherTheRunFits) {
  const auto roomy = plan(small({"--memory", "8GiB"}))["advice"];
  EXPECT_EQ(roomy["capacity"], i64{8} << 30);
  EXPECT_EQ(roomy["fits"], true);
  const auto tight = plan(small({"--memory", "20MB"}), 4)["advice"];
  EXPECT_EQ(tight["fits"], false);
  EXPECT_EQ(tight["capacity"], 20'000'000);
  EXPECT_EQ(tight["smaller"][0]["set"], "recompute.mode=selective");
  EXPECT_LT(tight["smaller"][0]["held"].get<i64>(), tight["held"].get<i64>());

  std::vector<std::string> text = small({"--memory", "20MB"});
  text.insert(text.begin(), "plan");
  EXPECT_THAT(
      run_tessera(text),
      Prints(4, "it does not fit\n  --set recompute.mode=selective ", "--set batch.micro=4 "));
  EXPECT_THAT(run_tessera({"plan", "--help"}).out, HasSubstr("4 planned, and it does not fit"));
  // Nobody said how much there is.
  const auto unknown = plan(small({"--set", "parallel.pipeline=4"}))["advice"];
  EXPECT_TRUE(unknown.contains("less_bubble"));
  EXPECT_EQ(unknown.dump().find("\"fits\""), std::string::npos);
  const auto v100 = plan(small({"--hardware", kDgx2}))["advice"];
  EXPECT_EQ(v100["fits"], true);
}

TEST(Plan, WarnsOfALongBubbleAndNamesTheNextBetterMicrobatchCount) {
  const std::vector<std::string> layout = small({"--set", "parallel.pipeline=4"});
  const auto p = plan(layout);
  ASSERT_EQ(p["microbatches"], 2);
  EXPECT_EQ(p["advice"]["long_bubble"], true);
  const auto better = p["advice"]["less_bubble"];
  EXPECT_EQ(better["set"], "batch.micro=4");
  EXPECT_EQ(better["microbatches"], 4);
  EXPECT_LT(better["bubble"].get<double>(), p["bubble"].get<double>());
  std::vector<std::string> text = layout;
  text.insert(text.begin(), "plan");
  EXPECT_THAT(run_tessera(text).out,
              HasSubstr("; --set batch.micro=4 gives 4 microbatches, bubble "));
}

TEST(Plan, PrintsTheRangesOfTheDistributedOptimizer) {
  std::vector<std::string> command = small(
      {"--set", "optimizer.type=distributed", "--set", "parallel.data=2", "--optimizer-ranges"});
  command.insert(command.begin(), "plan");
  EXPECT_THAT(run_tessera(command),
              Prints(0,
                     "pipeline rank 0, replicas of rank 0 (its other replica groups "
                     "have the same ranges)\n  bucket 0: ",
                     "embedding.weight"));
  command.emplace_back("--json");
  const ProcessResult json = run_tessera(command);
  EXPECT_EQ(json.exit_code, 0) << json.err;
  EXPECT_THAT(nlohmann::json::parse(json.out).dump(), HasSubstr("embedding.weight"));
}

// One layer of 16 features with positions [128, 16], which are cut.
std::vector<std::string> with_ranges(const std::vector<std::string>& sets) {
  std::vector<std::string> arguments = small({"--optimizer-ranges"});
  for (const char* set : {"model.layers=1",
                          "model.hidden=16",
                          "batch.micro=1",
                          "optimizer.type=distributed",
                          "parallel.bucket_elements=2000"}) {
    arguments.insert(arguments.end(), {"--set", set});
  }
  for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
  return arguments;
}

nlohmann::json buckets(const std::vector<std::string>& sets) {
  const auto ranges = plan(with_ranges(sets));
  EXPECT_EQ(ranges["pipeline_ranks"].size(), 1U);
  return ranges["pipeline_ranks"][0]["buckets"];
}

// By hand: parameters lie in reverse order, and each begins at a multiple of 64. The last norm and
// the MLP take 2304 elements and fill a bucket. In the next one 1408 elements come before the 2048
// of the positions, which close it at 3456. A shard has 1728, so that 320 of the positions are in
// the first one.
TEST(OptimizerRanges, OfACutParameterAreToldInFourCoordinates) {
  const auto all = buckets({"parallel.data=2"});
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[1]["begin"], 2304);
  EXPECT_EQ(all[1]["elements"], 3456);
  EXPECT_EQ(all[1]["shards"], 2);
  EXPECT_EQ(all[1]["whole_parameters"], false);
  const auto positions = all[1]["parameters"].back();
  EXPECT_EQ(positions["name"], "embedding.position");
  const auto parts = nlohmann::json::parse(R"([
      {"rank": 0, "world": [3712, 4032], "local": [1408, 1728], "param": [0, 320],
       "bucket": [1408, 1728]},
      {"rank": 1, "world": [4032, 5760], "local": [0, 1728], "param": [320, 2048],
       "bucket": [1728, 3456]}])");
  EXPECT_EQ(positions["parts"], parts);
  std::vector<std::string> text = with_ranges({"parallel.data=2"});
  text.insert(text.begin(), "plan");
  EXPECT_THAT(
      run_tessera(text).out,
      AllOf(HasSubstr("  bucket 1: elements [2304, 5760), 2 shards of 1728\n"),
            HasSubstr("    embedding.position\n"
                      "      rank 0     world [3712, 4032)  local [1408, 1728)  param [0, 320)  "
                      "bucket [1408, 1728)\n"
                      "      rank 1     world [4032, 5760)  local [0, 1728)  param [320, 2048)  "
                      "bucket [1728, 3456)\n")));
}

// Ranks that share a sequence hold the same parameters, so each updates a part of them.
TEST(OptimizerRanges, AreThoseOfDataParallelismForRanksThatShareSequences) {
  const auto shared = buckets({"parallel.context=2"});
  EXPECT_EQ(shared[0]["shards"], 2);
  EXPECT_EQ(shared, buckets({"parallel.data=2"}));
  EXPECT_EQ(buckets({"parallel.context=2", "parallel.data=2"})[0]["shards"], 4);
}

// Two of four ranks hold the same experts: 0 and 2, and 1 and 3. What is told is that of rank 0.
TEST(OptimizerRanges, OfExpertsAreAmongTheRanksThatHoldThem) {
  const auto all = buckets({"parallel.data=4",
                            "parallel.expert=2",
                            "model.block.mlp.type=moe",
                            "model.block.mlp.experts=4"});
  std::map<bool, std::set<i64>> ranks;  // that update something, of experts or of what is dense
  for (const auto& bucket : all) {
    const std::string first = bucket["parameters"][0]["name"];
    const bool experts = first.find(".experts.") != std::string::npos;
    EXPECT_EQ(bucket["shards"], experts ? 2 : 4) << first;
    for (const auto& parameter : bucket["parameters"]) {
      for (const auto& part : parameter["parts"]) ranks[experts].insert(part["rank"].get<i64>());
    }
  }
  EXPECT_THAT(ranks[false], ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(ranks[true], ElementsAre(0, 2));
}

TEST(Plan, WhatIsWrongIsExitCode2) {
  const auto error = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "plan");
    const ProcessResult result = run_tessera(std::move(arguments));
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.out, IsEmpty());
    return result.err;
  };
  EXPECT_THAT(error({"nowhere.toml"}), HasSubstr("nowhere.toml: there is no such file"));
  EXPECT_THAT(error(small({"--set", "parallel.tensor=3"})), HasSubstr("3"));
  EXPECT_THAT(error(small({"--set", "parallel.tensor=2", "--world", "3"})), HasSubstr("3"));
  EXPECT_THAT(error(small({"--hardware", "nowhere.toml"})), HasSubstr("nowhere.toml"));
  EXPECT_THAT(error(small({"--set", "schedule.type=\"1f1c\""})), HasSubstr("1f1b"));
  EXPECT_THAT(error(small({"--set", "parallel.expert=2"})),
              HasSubstr("[parallel] expert = 2: no layer of the model has experts"));
  EXPECT_THAT(error(small({"--set", "graph.type=partial", "--set", "graph.scope=[\"mpl\"]"})),
              HasSubstr("scope: no phase is called \"mpl\"; blocks have attn, "));
  EXPECT_THAT(
      error(small({"--set", "recompute.mode=selective", "--set", "recompute.scopes=[\"x\"]"})),
      HasSubstr("[recompute] scopes has \"x\"; the model's blocks have "));
  EXPECT_THAT(error(small({"--set", "check.bad_steps=9"})), HasSubstr("bad_steps has no effect"));
  const std::vector<std::string> moe = {"--set",
                                        "model.block.mlp.type=moe",
                                        "--set",
                                        "model.block.mlp.experts=4",
                                        "--set",
                                        "parallel.expert=2",
                                        "--set",
                                        "graph.type=partial",
                                        "--set",
                                        "graph.scope=[\"attn\", \"moe_dispatch\"]"};
  EXPECT_THAT(error(small(moe)), HasSubstr("the shapes of \"moe_dispatch\" depend on data"));
  EXPECT_THAT(error(small({"--world", "0"})), HasSubstr("--world"));
  EXPECT_THAT(error(small({"--world", "-1"})),
              HasSubstr("--world: Value -1 not in range 1 to 1048576"));
  std::vector<std::string> full = small({"--svg", "/dev/full"});
  full.insert(full.begin(), "plan");
  EXPECT_THAT(run_tessera(full), Exits(1, "/dev/full cannot be written"));
  EXPECT_THAT(error(small({"--svg", ""})), HasSubstr("--svg: is empty"));
  EXPECT_THAT(error(small({"--memory", "much"})), HasSubstr("--memory"));
  EXPECT_THAT(error(small({"--memory", "0"})), HasSubstr("--memory"));
  EXPECT_THAT(error(small({"--hardware", ""})), HasSubstr("--hardware: is empty"));
  EXPECT_THAT(error(small({"--set", "data.tokenizer.type=\"word\""})), HasSubstr("tokenizer"));
}

}  // namespace plan_test
}  // namespace tessera

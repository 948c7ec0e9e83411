// Configurations that cannot be trained: exit code 2, the text, and no rank started.
#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <memory>

#include "train_support.hpp"

namespace tessera::testing {
namespace train_errors_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct Mistake {
  std::string name;
  std::vector<std::string> sets;
  std::string text;
};

void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.name; }

class TrainMistake : public ::testing::TestWithParam<Mistake> {};

TEST_P(TrainMistake, IsNamedBeforeAnyRankStarts) {
  const TinyRun run;
  run.folder.write("short.txt", "too short");
  fs::create_symlink("nowhere", run.at("dangling"));
  const ProcessResult result = run.train(TinyRun::steps(5, "run", GetParam().sets));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr(GetParam().text));
  EXPECT_THAT(result.err, Not(HasSubstr("[rank ")));
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_FALSE(fs::exists(run.at("run")));
}

INSTANTIATE_TEST_SUITE_P(
    Texts,
    TrainMistake,
    ::testing::Values(
        Mistake{"UnknownKey",
                {"model.hiden=4"},
                "--set #3: [model] unknown key \"hiden\": did you mean \"hidden\"?"},
        Mistake{"WrongType",
                {"batch.global=many"},
                "--set #3: [batch] global: expected integer in [1, 16777216], got \"many\""},
        Mistake{"OutOfRange",
                {"model.dropout=2"},
                "--set #3: [model] dropout: expected float in [0, 1), got 2"},
        Mistake{"NameThatIsNoLine",
                {"run.name=\"a\\u001b[31m\\nb\""},
                "--set #3: [run] name: \"a\\u001B[31m\\nb\" has control characters"},
        Mistake{"PathThatIsNoLine",
                {"data.path=\"a\\nb.txt\""},
                "--set #3: [data] path: [\"a\\nb.txt\"] has control characters"},
        Mistake{"CheckpointThatIsNoLine",
                {"checkpoint.init_from=\"a\\nb\""},
                "--set #3: [checkpoint] init_from: \"a\\nb\" has control characters"},
        Mistake{"FolderThatIsNone",
                {"run.out=\"/dev/null/runs\""},
                "--set #3: [run] out = \"/dev/null/runs\": /dev/null is not a folder"},
        Mistake{"FolderThatIsALinkToNothing",
                {"run.out=dangling/run"},
                "/dangling is a link to nowhere, which does not exist; make that folder, or remove "
                "the link"},
        Mistake{"FolderOfCheckpointsThatIsNone",
                {"checkpoint.out=text.txt"},
                "--set #3: [checkpoint] out = \"/"},
        Mistake{"HomeOfAnotherUser",
                {"data.path=~ann/text.txt"},
                "--set #3: [data] path: \"~ann/text.txt\": only \"~/\" is read as a home folder"},
        Mistake{"NameOutsideOfRuns",
                {"run.out=\"\"", "run.name=../x"},
                "--set #4: [run] name = \"../x\" would make \"x\" the run's folder"},
        Mistake{"FolderThatNobodyCanMake",
                {"run.out=\"runs/" + std::string(300, 'a') + "\""},
                "[run] out is too long for the name of a folder"},
        Mistake{"MissingData",
                {"data.path=gone.txt", "parallel.data=2"},
                "--set #3: data.path: cannot read \""},
        Mistake{"ShortText",
                {"data.path=short.txt", "data.validation=0", "parallel.data=2"},
                "the training part has 9 of the text's 9 tokens; one sample of sequence length 16 "
                "needs 17"},
        Mistake{"Heads",
                {"parallel.tensor=4"},
                "6 heads do not divide among parallel.tensor = 4 ranks"},
        Mistake{"Batch",
                {"parallel.data=3"},
                "global = 8 is not a multiple of 6 = 3 data-parallel ranks × batch.micro = 2"},
        Mistake{"Microbatches",
                {"batch.global=1048576", "batch.micro=1"},
                "--set #3: [batch] global = 1048576 makes 1048576 microbatches of batch.micro = 1 "
                "on each rank: at most 16384 are planned"},
        Mistake{"Positions",
                {"batch.global=2097152", "batch.micro=2097152"},
                "--set #4: [batch] micro = 2097152 samples of batch.sequence_length = "},
        Mistake{"Order",
                {"parallel.order=tp-xp"},
                "--set #3: [parallel] order \"tp-xp\": unknown axis \"xp\"; known are tp, cp, ep,"},
        Mistake{"Experts",
                {"comm.ranks=2", "parallel.expert=4"},
                "--set #4: [parallel] expert = 4 needs 4 ranks; there are 2"},
        Mistake{"World",
                {"parallel.tensor=2", "comm.ranks=3"},
                "--set #3: [parallel] world size 3 is not divisible by tp·cp·pp = 2·1·1 = 2"},
        Mistake{"Worlds",
                {"parallel.tensor=32749",
                 "parallel.context=32719",
                 "parallel.expert=32717",
                 "parallel.expert_tensor=32713",
                 "parallel.pipeline=32707"},
                "1146811165412612351 ranks are too many for the "},
        Mistake{"World2",
                {"parallel.tensor=2", "parallel.data=2", "comm.ranks=6"},
                "data = 2, but 6 ranks with tensor 2, context 1, pipeline 1 leave 3"},
        Mistake{"SecondMomentThatCannotFall",
                {"optimizer.state_dtype=bf16"},
                "optimizer.state_dtype = \"bf16\": a step keeps 0.999 of second_moment, and bf16 "
                "rounds such a small change away, so it would stop falling. Give the rule a beta "
                "of at most 0.996, or choose state_dtype = \"main\""},
        Mistake{
            "RouterThatCannotLearn",
            {"model.block.mlp.type=moe", "model.block.mlp.experts=4", "model.block.mlp.top_k=1"},
            "score: of one chosen expert the softmax is 1 whatever the router says"},
        Mistake{"MissingCheckpoint",
                {"checkpoint.resume=gone", "parallel.data=2"},
                "--set #3: [checkpoint] resume: there is no checkpoint /"},
        Mistake{"Stages",
                {"parallel.pipeline=4", "schedule.type=1f1b"},
                "--set #3: [placement] 2 blocks do not divide among 4 pipeline stages"},
        Mistake{"StageLayout",
                {"parallel.pipeline=2", "schedule.type=1f1b", "placement.layout=\"Ett|L|\""},
                "--set #5: [placement] layout = \"Ett|L|\" has 3 stages"},
        Mistake{"Schedule",
                {"parallel.pipeline=2",
                 "schedule.type=interleaved_1f1b",
                 "schedule.microbatch_group=3",
                 "placement.layout=\"E|t|t|L\""},
                "takes microbatches in groups of 3"},
        Mistake{"NoPipelineSchedule",
                {"parallel.pipeline=2", "schedule.type=sequential"},
                "\"sequential\" needs parallel.pipeline = 1, not 2"},
        Mistake{"RecomputedScope",
                {"recompute.mode=selective", "recompute.scopes=[\"atn\"]"},
                "--set #4: [recompute] scopes has \"atn\"; the model's blocks have attn, mlp"},
        Mistake{"Precision",
                {"precision.compute=fp64", "precision.main=fp64"},
                "takes fp32, fp16, bf16 for table, not fp64"},
        Mistake{"OptimizerGroup",
                {"optimizer.groups.heads.match=haed.*"},
                "--set #3: optimizer.groups.heads.match: \"haed.*\" is the name or tag of no"},
        Mistake{"Zigzag",
                {"parallel.context=3"},
                "--set #3: [parallel] context = 3 cuts every sample into 6 equal chunks"},
        Mistake{"HugeBatch",
                {"batch.global=4611686018427387904", "batch.micro=4611686018427387904"},
                "[batch] micro: expected integer in [1, 16777216], got 4611686018427387904"},
        Mistake{"HugeHidden",
                {"model.hidden=4611686018427387904"},
                "[model] hidden: expected integer in [1, 262144], got 4611686018427387904"},
        Mistake{"HugeLayers",
                {"model.layers=1000000000000"},
                "[model] layers: expected integer in [1, 10000], got 1000000000000"},
        Mistake{"HugeHeadsOfALayer",
                {"model.block.attention.heads=4611686018427387904"},
                "heads: expected integer in [1, 262144]"},
        Mistake{"HugeFeaturesOfALayer",
                {"model.block.mlp.hidden=1000000000000"},
                "hidden: expected integer in [1, 262144]"},
        Mistake{"HugeChunks",
                {"parallel.pipeline=2",
                 "schedule.type=interleaved_1f1b",
                 "schedule.chunks=4611686018427387904"},
                "chunks: expected integer in [1, 10000]"},
        Mistake{"HugeThreads", {"device.threads=1000000"}, "expected integer in [1, 1024]"},
        Mistake{
            "EndlessWait", {"comm.init_timeout_s=1e300"}, "expected float in [0.001, 30000000]"},
        Mistake{"HugeAxis", {"parallel.tensor=1000000"}, "expected integer in [1, 32768]"},
        Mistake{"MoreRanksThanAHostCarries",
                {"parallel.data=32768", "batch.global=65536"},
                "set comm.oversubscribe = true to start more than 8 for each"},
        Mistake{"MissingPlugins", {"plugins.path=none"}, "[plugins] path: there is no folder "}),
    [](const auto& info) { return info.param.name; });

TEST(TrainErrors, AreAllReportedAtOnce) {
  const TinyRun run;
  const ProcessResult result = run.train(
      TinyRun::steps(5, "run", {"parallel.tensor=4", "batch.global=5", "data.path=gone.txt"}));
  EXPECT_EQ(result.exit_code, 2);
  for (const char* problem :
       {"tiny.toml:18:9, from model.heads: [model.block.attention] heads: 6 heads do not",
        "--set #4: [batch] global = 5 is not a multiple of 2",
        "--set #5: data.path: cannot read \""}) {
    EXPECT_THAT(result.err, HasSubstr(problem));
  }
}

TEST(TrainErrors, ConfigCheckLooksForTheCheckpointToo) {
  const TinyRun run;
  const auto check = [&](const std::string& resume) {
    return run_tessera({"config",
                        "check",
                        run.at("tiny.toml"),
                        "--set",
                        "run.steps=5",
                        "--set",
                        "checkpoint.resume=" + resume});
  };
  EXPECT_THAT(check(run.at("gone")), Exits(2, "there is no checkpoint " + run.at("gone")));
  fs::create_directory(run.at("empty"));
  EXPECT_THAT(check(run.at("empty")).err,
              HasSubstr(run.at("empty") + " holds no complete checkpoint"));
  EXPECT_EQ(check("auto").exit_code, 0);
}

// Nothing is unreadable to root, so a test of root's becomes nobody.
TEST(TrainErrors, PluginsThatCannotBeRead) {
  const TinyRun run;
  std::vector<std::string> command = run.command(TinyRun::steps(5, "run", {"plugins.path=locked"}));
  if (geteuid() == 0) {
    const std::vector<std::string> nobody = {
        "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"};
    command.insert(command.begin(), nobody.begin(), nobody.end());
    std::vector<std::string> probe = nobody;
    probe.insert(probe.end(), {tessera_program(), "--version"});
    if (run_process(probe).exit_code != 0) GTEST_SKIP() << "only root can run this build";
    fs::permissions(run.folder.path(), fs::perms::others_all, fs::perm_options::add);
  }
  fs::create_directory(run.at("locked"));
  fs::permissions(run.at("locked"), fs::perms::none);
  const ProcessResult result = run_process(command, run.options());
  fs::permissions(run.at("locked"), fs::perms::owner_all);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(
      result.err,
      HasSubstr("cannot read the plugin folder " + run.at("locked") + ": Permission denied"));
}

TEST(TrainErrors, AutoHandsKeysToTheCommunicatorItChooses) {
  const TinyRun run;
  const std::vector<std::string> sets = {
      "parallel.data=2", "model.hidden=240", "comm.segment_gib=0.001"};
  EXPECT_THAT(run.train(TinyRun::steps(5, "run", sets)),
              Exits(1,
                    "out of memory: ",
                    ", of this rank's segment of 2097152 bytes (comm.segment_gib). ",
                    Not(HasSubstr("memory ran out"))));
}

// --- ranks that were started differently, by hand ---

class TwoRanks : public ::testing::Test {
 protected:
  void start(int rank,
             std::vector<std::string> sets,
             const std::map<std::string, std::string>& environment = {}) {
    ProcessOptions options = run_.options();
    const std::string number = std::to_string(rank);
    options.environment.insert({{"RANK", number},
                                {"WORLD_SIZE", "2"},
                                {"LOCAL_RANK", number},
                                {"LOCAL_WORLD_SIZE", "2"},
                                {"MASTER_ADDR", "127.0.0.1"},
                                {"MASTER_PORT", "29512"},
                                {"TORCHELASTIC_RUN_ID", run_.at("")}});
    options.environment.insert(environment.begin(), environment.end());
    sets.push_back("parallel.data=2");
    ranks_.push_back(
        std::make_unique<Process>(run_.command(TinyRun::steps(5, "run", sets)), options));
  }
  // Both say the same.
  std::string error() {
    const ProcessResult first = ranks_[0]->wait(), second = ranks_[1]->wait();
    EXPECT_EQ(first.exit_code, 2) << first.err;
    EXPECT_EQ(second.exit_code, 2) << second.err;
    EXPECT_EQ(first.last_error(), second.last_error());
    return first.last_error();
  }
  const TinyRun run_;
  std::vector<std::unique_ptr<Process>> ranks_;
};

TEST_F(TwoRanks, DifferentConfigurations) {
  start(0, {});
  start(1, {"lr.peak=2e-3"});
  EXPECT_THAT(error(),
              AllOf(HasSubstr("ranks disagree on configuration: line "),
                    HasSubstr("on rank 0"),
                    HasSubstr("on rank 1")));
}

TEST_F(TwoRanks, DifferentPlugins) {
  // The same plugin in another file.
  fs::create_directory(run_.at("plugins"));
  const fs::path own = run_.at("plugins/libtessera_adamw.so");
  fs::copy(TESSERA_BUILD_DIR "/plugins/libtessera_adamw.so", own);
  std::ofstream(own, std::ios::app | std::ios::binary) << "changed";
  start(0, {});
  start(1, {}, {{"TESSERA_PLUGIN_PATH", run_.at("plugins")}});
  EXPECT_THAT(error(), AllOf(HasSubstr("ranks disagree on plugins: line "), HasSubstr("adamw")));
}

// Replicas that are computed by other instructions differ in their last bits.
TEST_F(TwoRanks, DifferentInstructionSets) {
  const std::vector<std::string> keys = {"device.isa=baseline", "device.fp32_matmul=onednn"};
  start(0, keys);
  start(1, keys, {{"ONEDNN_MAX_CPU_ISA", "AVX2"}});
  EXPECT_THAT(error(),
              AllOf(HasSubstr("ranks disagree on what their device computes with: \"baseline; "
                              "matmul: fp32 oneDNN, bf16 built-in\" on rank 0, "),
                    HasSubstr("bf16 built-in; ONEDNN_MAX_CPU_ISA=AVX2\" on rank 1; results would "
                              "differ in their last bits: start on hosts "
                              "and units that are alike, or let all devices use only what each of "
                              "them has (the page of the device says how)")));
}

// Only a mask removes what fills up the last batch of a validation.
TEST(TrainErrors, AValidationOfALossWithoutAMaskNeedsFullBatches) {
  const TinyRun run;
  const auto train = [&](const std::string& samples) {
    return run.train(TinyRun::steps(1,
                                    "run" + samples,
                                    {broken_plugins(),
                                     "model.head.norm.type=test_broken_norm",
                                     "model.head.norm.how=token_loss",
                                     "data.validation=0.2",
                                     "validation.every_steps=1",
                                     "validation.samples=" + samples}));
  };
  EXPECT_THAT(train("3"),
              Exits(2,
                    "3 samples do not fill batches of batch.global = 8",
                    "the loss \"test_term\" is weighted by samples or tokens"));
  EXPECT_EQ(train("8").exit_code, 0);
}

}  // namespace train_errors_test
}  // namespace tessera::testing

// The commands as a user meets them: arguments, output, exit codes.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "program_support.hpp"

namespace tessera {
namespace cli_test {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::run_tessera;
using ::testing::StartsWith;
using testing::TestFolder;

const std::string kPlugins = TESSERA_BUILD_DIR "/tests/plugins/";

// One that failed says why on standard error, and nothing on standard output.
std::string error_of(const ProcessResult& result, int exit_code) {
  EXPECT_EQ(result.exit_code, exit_code) << result.err;
  EXPECT_THAT(result.out, IsEmpty());
  return result.err;
}

std::string output_of(const ProcessResult& result) {
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, IsEmpty());
  return result.out;
}

// --- the program ---

TEST(Cli, VersionNamesTheAbi) {
  EXPECT_THAT(output_of(run_tessera({"--version"})),
              AllOf(StartsWith("tessera 0."), HasSubstr("\nSDK ABI "), HasSubstr("compiler=")));
}

TEST(Cli, HelpListsTheCommands) {
  EXPECT_THAT(output_of(run_tessera({"--help"})),
              AllOf(HasSubstr("ranks"), HasSubstr("plugins"), HasSubstr("config")));
  EXPECT_THAT(output_of(run_tessera({"ranks", "--help"})),
              AllOf(HasSubstr("--world-size"), HasSubstr("tp-cp-ep-dp-pp")));
  EXPECT_THAT(output_of(run_tessera({"plugins", "--help"})),
              AllOf(HasSubstr("show"), HasSubstr("check"), Not(HasSubstr("check-child"))));
}

TEST(Cli, WrongUsageIsExitCode2) {
  EXPECT_THAT(error_of(run_tessera({}), 2), HasSubstr("see tessera --help"));
  EXPECT_EQ(error_of(run_tessera({"rank", "--world-size", "4"}), 2),
            "there is no command \"tessera rank\"; did you mean \"ranks\"?\n"
            "  see tessera --help\n");
  EXPECT_THAT(error_of(run_tessera({"plugins", "shwo", "x/y"}), 2),
              StartsWith("there is no command \"tessera plugins shwo\"; did you mean \"show\"?"));
  EXPECT_THAT(error_of(run_tessera({"bog\x1b[31mus"}), 2), HasSubstr("bog\\u001B[31mus"));
  EXPECT_THAT(error_of(run_tessera({"ranks"}), 2),
              AllOf(HasSubstr("--world-size"), HasSubstr("see tessera ranks --help")));
  EXPECT_THAT(error_of(run_tessera({"ranks", "--world-size", "many"}), 2), HasSubstr("many"));
  EXPECT_THAT(error_of(run_tessera({"ranks", "--world-size", "4", "--tensor", "2"}), 2),
              HasSubstr("--tensor"));
  EXPECT_THAT(error_of(run_tessera({"plugins", "show"}), 2),
              HasSubstr("see tessera plugins show --help"));
  EXPECT_THAT(error_of(run_tessera({"config"}), 2), HasSubstr("see tessera config --help"));
}

TEST(Cli, StandardOutputThatCannotBeWrittenIsAFailure) {
  const ProcessResult result =
      run_process({"sh", "-c", testing::tessera_program() + " ranks --world-size 4 > /dev/full"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err, "standard output cannot be written\n");
}

// libgomp reads its settings before main, and says which with OMP_DISPLAY_ENV.
TEST(Cli, WaitingThreadsOfOpenMPSpinForABoundedTime) {
  const auto shown = [](std::map<std::string, std::string> environment) {
    environment["OMP_DISPLAY_ENV"] = "VERBOSE";
    return run_tessera({"--version"}, {.environment = environment, .folder = ""}).err;
  };
  EXPECT_THAT(shown({}), HasSubstr("GOMP_SPINCOUNT = '2000'"));
  EXPECT_THAT(shown({{"GOMP_SPINCOUNT", "77"}}), HasSubstr("GOMP_SPINCOUNT = '77'"));
  EXPECT_THAT(shown({{"OMP_WAIT_POLICY", "passive"}}), HasSubstr("GOMP_SPINCOUNT = '0'"));
}

// --- ranks ---

TEST(CliRanks, Groups) {
  EXPECT_EQ(output_of(run_tessera({"ranks", "--world-size", "8", "--tp", "2", "--pp", "2"})),
            "world size 8, order tp-cp-ep-dp-pp\n"
            "dense: tp 2, cp 1, dp 2, pp 2\n"
            "  tp   [0 1] [2 3] [4 5] [6 7]\n"
            "  cp   every rank by itself\n"
            "  dp   [0 2] [1 3] [4 6] [5 7]\n"
            "  pp   [0 4] [1 5] [2 6] [3 7]\n"
            "expert: etp 2, ep 1, edp 2, pp 2\n"
            "  etp  [0 1] [2 3] [4 5] [6 7]\n"
            "  ep   every rank by itself\n"
            "  edp  [0 2] [1 3] [4 6] [5 7]\n"
            "  pp   [0 4] [1 5] [2 6] [3 7]\n");
}

TEST(CliRanks, Json) {
  EXPECT_EQ(output_of(run_tessera(
                {"ranks", "--world-size", "4", "--tp", "2", "--etp", "1", "--ep", "2", "--json"})),
            "{\"world_size\":4,"
            "\"dense\":{\"tp\":[[0,1],[2,3]],\"cp\":[[0],[1],[2],[3]],"
            "\"dp\":[[0,2],[1,3]],\"pp\":[[0],[1],[2],[3]]},"
            "\"expert\":{\"etp\":[[0],[1],[2],[3]],\"ep\":[[0,1],[2,3]],"
            "\"edp\":[[0,2],[1,3]],\"pp\":[[0],[1],[2],[3]]}}\n");
}

TEST(CliRanks, Picture) {
  const testing::TestFolder folder;
  const std::string file = folder.path() / "ranks.svg";
  const auto draw = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"ranks", "--svg", file});
    output_of(run_tessera(std::move(more)));
    return testing::read_file(file);
  };
  const std::string svg = draw({"--world-size", "8", "--tp", "2", "--pp", "2"});
  EXPECT_THAT(svg,
              AllOf(StartsWith("<svg xmlns="),
                    EndsWith("</svg>\n"),
                    HasSubstr("8 ranks, order tp-cp-ep-dp-pp"),
                    HasSubstr("<title>rank 5: tp group 2: 4 5</title>"),
                    HasSubstr("<title>rank 5: dp group 3: 5 7</title>"),
                    HasSubstr("<title>rank 5: pp group 1: 1 5</title>"),
                    Not(HasSubstr("cp group")),     // of one rank
                    Not(HasSubstr("etp group"))));  // the same as tp
  EXPECT_THAT(draw({"--world-size", "2"}), HasSubstr("dp group 0: 0 1"));
  EXPECT_THAT(draw({"--world-size", "1"}), HasSubstr("Every rank is by itself."));
  EXPECT_THAT(draw({"--world-size", "8", "--tp", "2", "--group", "tp-dp"}),
              HasSubstr("tp-dp group 0: 0 1 2 3 4 5 6 7"));
  EXPECT_THAT(error_of(run_tessera({"ranks", "--svg", file, "--world-size", "8192"}), 1),
              HasSubstr("8192 ranks are too many for a picture"));
}

TEST(CliRanks, OneGroup) {
  EXPECT_EQ(output_of(run_tessera(
                {"ranks", "--world_size", "8", "--tp", "2", "--pp", "2", "--group", "tp-dp"})),
            "0 1 2 3\n4 5 6 7\n");
  EXPECT_EQ(output_of(run_tessera({"ranks",
                                   "--world-size",
                                   "4",
                                   "--tp",
                                   "2",
                                   "--order",
                                   "dp-tp-pp",
                                   "--group",
                                   "dp",
                                   "--json"})),
            "{\"world_size\":4,\"group\":\"dp\",\"ranks\":[[0,1],[2,3]]}\n");
}

TEST(CliRanks, NoGroupIsNotAllGroups) {
  EXPECT_THAT(error_of(run_tessera({"ranks", "--world-size", "4", "--group", ""}), 2),
              HasSubstr("--group: is empty"));
}

TEST(CliRanks, ImpossibleLayoutsAreExitCode2) {
  EXPECT_EQ(error_of(run_tessera({"ranks", "--world-size", "8", "--tp", "3"}), 2),
            "world size 8 is not divisible by tp·cp·pp = 3·1·1 = 3, so dp has no whole size\n");
  EXPECT_THAT(error_of(run_tessera({"ranks", "--world-size", "8", "--group", "tp-ep"}), 2),
              StartsWith("no group along both tp and ep"));
  EXPECT_THAT(error_of(run_tessera({"ranks", "--world-size", "8", "--order", "tp"}), 2),
              StartsWith("order \"tp\" leaves out dp"));
}

// --- plugins ---

TEST(CliPlugins, ListsComponentsAndWhatCouldNotBeLoaded) {
  const std::string out = output_of(run_tessera(
      {"plugins", "--path", kPlugins + "good", "--path", kPlugins + "missing_dependency"}));
  EXPECT_THAT(out, HasSubstr("tokenizer/test_letters "));
  EXPECT_THAT(out, HasSubstr("   libtessera_test_good.so 1.2.3   "));
  EXPECT_THAT(out, HasSubstr("communicator/threads "));
  EXPECT_THAT(out, HasSubstr("searched:\n  " + kPlugins + "good\n"));
  EXPECT_THAT(out, HasSubstr("not loaded: " + kPlugins + "missing_dependency/"));
}

// Sanitizers end the process in their own way unless they are told not to.
ProcessOptions without_reports() {
  ProcessOptions options;
  for (const std::string name : {"ASAN_OPTIONS", "TSAN_OPTIONS"}) {
    const char* set = std::getenv(name.c_str());
    options.environment[name] = std::string(set != nullptr ? set : "") + " handle_segv=0";
  }
  return options;
}

TEST(CliPlugins, OneThatEndsTheProcessIsNamed) {
  struct Case {
    std::string name, text;
    int signal, exit_code;
  };
  for (const auto& [name, text, signal, exit_code] :
       {Case{"crash_on_load", "crashed by SIGSEGV (Segmentation fault)", SIGSEGV, -1},
        {"crashes", "crashed by SIGABRT (Aborted)", SIGABRT, -1},
        {"exits", "the process was ended by _exit(3)", 0, 3}}) {
    const std::string file = kPlugins + name + "/libtessera_test_" + name + ".so";
    for (const std::vector<std::string>& words : {std::vector<std::string>{"plugins"},
                                                  {"plugins", "show", "tokenizer/test_letters"},
                                                  {"config", "keys"}}) {
      std::vector<std::string> command = words;
      command.insert(command.end(), {"--path", kPlugins + name});
      const ProcessResult result = run_tessera(command, without_reports());
      EXPECT_EQ(result.signal, signal);
      EXPECT_EQ(result.exit_code, exit_code);
      EXPECT_THAT(
          result.last_error(),
          StartsWith(text + " in the static constructors or the registration of \"" + file + "\""));
    }
  }
}

TEST(CliPlugins, ShowPrintsTheKeys) {
  ProcessOptions in_build;
  in_build.folder = TESSERA_BUILD_DIR;
  EXPECT_EQ(
      output_of(run_tessera(
          {"plugins", "show", "tokenizer/test_letters", "--path", kPlugins + "good"}, in_build)),
      "tokenizer/test_letters   1.2.3   tests/plugins/good/libtessera_test_good.so   "
      "One id a letter.\n"
      "  first     integer >= 0       97       code of id 0 (Megatron: --first-letter)\n"
      "  unknown   string             \"?\"      what stands for other characters\n"
      "  ratio     float in [0, 1)    0.5      not read\n"
      "  limit     integer | \"auto\"   \"auto\"   most letters of a text\n");
}

TEST(CliPlugins, ShowOfAComponentOfTheKernel) {
  EXPECT_THAT(output_of(run_tessera({"plugins", "show", "communicator/threads"})),
              StartsWith("communicator/threads   kernel   "));
}

TEST(CliPlugins, ShowKnowsSimilarNames) {
  EXPECT_THAT(error_of(run_tessera({"plugins", "show", "communicator/thread"}), 2),
              AllOf(StartsWith("there is no component \"communicator/thread\"; did you mean "
                               "\"communicator/threads\"?\n"),
                    HasSubstr("known communicators: ")));
  EXPECT_THAT(error_of(run_tessera({"plugins", "show", "nonsense"}), 2),
              AllOf(HasSubstr("known kinds: communicator"), Not(HasSubstr("did you mean"))));
  for (const std::string name : {"threads", "thread"}) {  // without its kind
    EXPECT_THAT(error_of(run_tessera({"plugins", "show", name}), 2),
                StartsWith("there is no component \"" + name +
                           "\"; did you mean \"communicator/threads\"?\n"));
  }
}

TEST(CliPlugins, OneThatDoesNotComeBackIsNamed) {
  const std::string path = kPlugins + "load_hangs";
  const std::string script =
      "\"$@\" & p=$!; sleep 6; cat /proc/$p/task/*/children; kill -9 $p; wait $p";
  const ProcessResult result = run_process(
      {"bash", "-c", script, "bash", testing::tessera_program(), "plugins", "--path", path},
      ProcessOptions());
  EXPECT_THAT(result.out, IsEmpty()) << "it started a process";
  EXPECT_THAT(
      result.err,
      AllOf(HasSubstr(path + "/libtessera_test_load_hangs.so: its static constructors or its "
                             "registration have been running for 5 s; "),
            HasSubstr("`tessera plugins check` says which of them hangs")));
}

TEST(CliPlugins, CheckTellsASoundPluginFromABadOne) {
  EXPECT_THAT(
      output_of(run_tessera({"plugins", "check", kPlugins + "good/libtessera_test_good.so"})),
      HasSubstr("tokenizer/test_letters: One id a letter."));
  EXPECT_THAT(error_of(run_tessera({"plugins", "check", "/nonexistent.so"}), 1),
              "plugin error: /nonexistent.so: there is no such file\n");
  const ProcessResult crash = run_tessera(
      {"plugins", "check", kPlugins + "crash_on_load/libtessera_test_crash_on_load.so"});
  EXPECT_EQ(crash.exit_code, 1) << "the crash is the child's";
}

TEST(CliPlugins, AFolderThatDoesNotExist) {
  EXPECT_EQ(error_of(run_tessera({"plugins", "--path", "/nonexistent"}), 2),
            "[plugins] path: there is no folder /nonexistent\n");
  ProcessOptions environment;
  environment.environment = {{"TESSERA_PLUGIN_PATH", "/nonexistent"}};
  EXPECT_EQ(error_of(run_tessera({"plugins"}, environment), 2),
            "TESSERA_PLUGIN_PATH: there is no folder /nonexistent\n");
}

TEST(CliPlugins, TheWorkingFolderAndTheLoadersPathAreNotSearched) {
  ProcessOptions options;
  options.folder = kPlugins + "good";
  options.environment = {{"LD_LIBRARY_PATH", kPlugins + "good"}};
  EXPECT_THAT(output_of(run_tessera({"plugins"}, options)), Not(HasSubstr("test_letters")));
  options.environment = {{"TESSERA_PLUGIN_PATH", kPlugins + "good"}};
  EXPECT_THAT(output_of(run_tessera({"plugins"}, options)), HasSubstr("test_letters"));
}

TEST(CliPlugins, TwoThatBringTheSameStopEverything) {
  EXPECT_THAT(
      error_of(
          run_tessera({"plugins", "--path", kPlugins + "good", "--path", kPlugins + "duplicate"}),
          2),
      StartsWith("plugin error: tokenizer/test_letters comes from both "));
}

// --- config ---

class CliConfig : public ::testing::Test {
 protected:
  ProcessResult config(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "config");
    return run_tessera(std::move(arguments));
  }
  TestFolder folder_;
};

TEST_F(CliConfig, ProblemsAreReportedWithTheirPlaceAndExitCode2) {
  const std::string file = folder_.write("run.toml", "[run]\nstepps = 3\n");
  EXPECT_THAT(error_of(config({"check", file}), 2),
              AllOf(HasSubstr("run.toml:2:1: "), HasSubstr("did you mean \"steps\"?")));
  EXPECT_THAT(error_of(config({"check", folder_.write("bad.toml", "[run\n")}), 2),
              HasSubstr("bad.toml:1:"));
  EXPECT_THAT(error_of(config({"check", (folder_.path() / "absent.toml").string()}), 2),
              HasSubstr("absent.toml"));
  EXPECT_THAT(error_of(config({"check"}), 2), HasSubstr("FILES is required"));
}

TEST_F(CliConfig, UnknownComponentsShowThePluginsThatDidNotLoad) {
  const std::string file = folder_.write("run.toml",
                                         "[run]\nsteps = 3\n[plugins]\npath = [\"" + kPlugins +
                                             "missing_dependency\"]\n[comm]\ntype = \"deepep\"\n");
  EXPECT_THAT(error_of(config({"check", file}), 2),
              AllOf(HasSubstr("run.toml:6:"),
                    HasSubstr("deepep"),
                    HasSubstr("threads (kernel)"),
                    HasSubstr("needs libtest_absent.so, which was not found")));
}

TEST_F(CliConfig, APluginThatCrashesTheProcessIsNamed) {
  const std::string file = folder_.write("run.toml", "[run]\nsteps = 3\n");
  for (const auto& [name, how] : {std::pair{"crash_on_load", "SIGSEGV (Segmentation fault)"},
                                  std::pair{"crashes", "SIGABRT (Aborted)"}}) {
    EXPECT_THAT(config({"check", file, "--set", "plugins.path=" + kPlugins + name}),
                Exits(::testing::Ne(0),
                      std::string("crashed by ") + how +
                          " in the static constructors or the registration of \"" + kPlugins +
                          name + "/libtessera_test_" + name + ".so\""));
  }
}

TEST_F(CliConfig, AnEmptyFileSaysNothing) {
  const std::string file = folder_.write("run.toml", "[run]\nsteps = 3\nname = 7\n");
  const std::string empty = folder_.write("empty.toml", "");
  EXPECT_THAT(error_of(config({"check", empty, file, "/dev/null"}), 2),
              HasSubstr("run.toml:3:8: [run] name"));
  EXPECT_THAT(error_of(config({"check", empty}), 2), HasSubstr("\"steps\" is missing"));
}

TEST_F(CliConfig, SetsComeAfterFilesInAnyPlace) {
  const std::string file = folder_.write("run.toml", "[run]\nsteps = 3\n");
  EXPECT_THAT(error_of(config({"check", "--set", "run.seed=-1", file}), 2), HasSubstr("--set #1"));
  EXPECT_THAT(error_of(config({"check", file, "--set", "run.name=x", "--set", "run.seed=-1"}), 2),
              HasSubstr("--set #2"));
}

// A key that is not known hides none of what does not rest on its section.
TEST_F(CliConfig, CheckTellsTheProblemsOfAllStages) {
  folder_.write("text.txt", std::string(400, 't'));
  const std::string file = folder_.write("run.toml", R"(
[run]
steps = 3
[batch]
global = 3
micro = 2
sequence_length = 8
[model]
layers = 2
hidden = 8
heads = 3
[lr]
peek = 1e-3
[precision]
compute = "bf16"
main = "fp64"
[checkpoint]
resume = "absent"
[data]
path = "text.txt"
)");
  const std::string wrong = error_of(config({"check", file}), 2);
  EXPECT_THAT(wrong, HasSubstr("run.toml:13:1: [lr] unknown key \"peek\""));
  EXPECT_THAT(wrong, HasSubstr("run.toml:5:10: [batch] global = 3 is not a multiple of 2"));
  EXPECT_THAT(wrong, HasSubstr("run.toml:16:8: [precision] compute = \"bf16\" adds gradients"));
  EXPECT_THAT(wrong, HasSubstr("run.toml:18:10: [checkpoint] resume: "));
  EXPECT_THAT(error_of(config({"check", file, "--set", "precision.main=fp32"}), 2),
              AllOf(HasSubstr("\"peek\""), HasSubstr("global = 3"), HasSubstr("heads")));
  // What does not rest on what a typo meant is checked still.
  EXPECT_THAT(error_of(config({"check", file, "--set", "run.nme=x", "--set", "data.path=no"}), 2),
              AllOf(HasSubstr("\"nme\": did you mean \"name\"?"),
                    HasSubstr("--set #2: data.path: cannot read \"")));
  // What the microbatches would be rests on what the typo meant.
  EXPECT_THAT(error_of(config({"check", file, "--set", "parallel.tensr=2"}), 2),
              AllOf(HasSubstr("\"tensr\""), Not(HasSubstr("global = 3"))));
}

// A parameter that no gradient reaches is worth a warning, and more where it is asked for.
TEST_F(CliConfig, CheckCountsWarnings) {
  folder_.write("text.txt", std::string(400, 't'));
  const std::string file = folder_.write("run.toml", R"(
run.steps = 3
batch = {global = 2, micro = 1, sequence_length = 8}
model = {layers = 2, hidden = 8, heads = 2, block.mlp = {type = "moe", experts = 2}}
lr.peak = 1e-3
data.path = "text.txt"
)");
  const std::string later = "model.block.mlp.router.type=expert_choice";
  const ProcessResult result = config({"check", file, "--set", later});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("warning: "));
  EXPECT_EQ(result.out, "1 warning\n");
  EXPECT_THAT(error_of(config({"check", file, "--strict", "--set", later}), 2),
              HasSubstr("1 warning, which --strict makes an error"));
  EXPECT_EQ(output_of(config({"check", file, "--strict"})), "no problem found\n");
}

// With the plugins of this build: what is dumped is the same configuration.
TEST_F(CliConfig, WhatIsDumpedLoadsBack) {
  folder_.write("text.txt", std::string(400, 't'));
  const std::string file = folder_.write("run.toml", R"(
[run]
steps = 3
[device]
type = "reference"
[comm]
type = "shm"
[batch]
global = 2
micro = 1
sequence_length = 8
[model]
type = "gpt"
layers = 2
hidden = 8
heads = 2
[lr]
peak = 1e-3
[data]
path = "text.txt"
[optimizer.rule]
type = "sgd"
)");
  EXPECT_EQ(output_of(config({"check", file})), "no problem found\n");
  const std::string dumped = output_of(config({"dump", file, "--set", "run.seed=7"}));
  EXPECT_THAT(dumped, HasSubstr("--set #1"));
  const std::string again = folder_.write("elsewhere/dumped.toml", dumped);
  EXPECT_EQ(output_of(config({"diff", file, again})), "- run.seed = 1234\n+ run.seed = 7\n");
  EXPECT_EQ(output_of(config({"diff", file, file})), "");
}

TEST_F(CliConfig, SizesBeyondAllReasonAreNamed) {
  const std::string file = folder_.write("run.toml", "[model]\ntype = \"gpt\"\n");
  for (const auto& [section, key] : {std::pair<std::string, std::string>{"model", "layers"},
                                     {"model", "hidden"},
                                     {"model", "heads"},
                                     {"model", "vocab"},
                                     {"batch", "sequence_length"}}) {
    for (const std::string value : {"1000000000", "9000000000000000000"}) {
      const std::string set = fmt::format("{}.{}={}", section, key, value);
      EXPECT_THAT(error_of(config({"check", file, "--set", set}), 2),
                  ContainsRegex(fmt::format(
                      "--set #1: \\[{}\\] {}: expected integer in \\[1, [0-9]+\\].*, got {}",
                      section,
                      key,
                      value)));
    }
  }
  EXPECT_THAT(error_of(config({"check", file, "--set", "model.block.mlp.ffn=1000000000"}), 2),
              HasSubstr("--set #1: [model.block.mlp] ffn: expected integer in [1, "));
}

TEST_F(CliConfig, DiffTakesTwoFiles) {
  const std::string file = folder_.write("run.toml", "[run]\nsteps = 3\n");
  EXPECT_THAT(error_of(config({"diff", file}), 2),
              AllOf(HasSubstr("B is required"), HasSubstr("see tessera config diff --help")));
  EXPECT_THAT(error_of(config({"diff", file, file, "third.toml"}), 2), HasSubstr("third.toml"));
  EXPECT_THAT(
      output_of(config({"diff", "--help"})),
      AllOf(HasSubstr("A TEXT REQUIRED"), HasSubstr("not merged"), Not(HasSubstr("FILES"))));
}

// A key that is missing has no place that would say in which file.
TEST_F(CliConfig, DiffSaysWhichFileIsWrong) {
  folder_.write("text.txt", "text");
  const std::string sound = folder_.write("sound.toml",
                                          "[run]\nsteps = 3\n[batch]\nglobal = 2\nmicro = 1\n"
                                          "sequence_length = 2\n[model]\nlayers = 1\nhidden = 8\n"
                                          "heads = 2\n[lr]\npeak = 1e-3\n"
                                          "[data]\npath = \"text.txt\"\n");
  const std::string wrong = folder_.write("wrong.toml", "[run]\nname = \"x\"\n");
  for (const auto& [a, b] : {std::pair{sound, wrong}, std::pair{wrong, sound}}) {
    EXPECT_THAT(error_of(config({"diff", a, b}), 2),
                AllOf(StartsWith(wrong + " cannot be compared:\n"),
                      HasSubstr("[run] \"steps\" is missing"),
                      Not(HasSubstr("sound.toml"))));
  }
}

}  // namespace cli_test
}  // namespace tessera

#include "kernel/cli/parse.hpp"

#include <gmock/gmock.h>

#include <optional>

#include "tessera/error.hpp"
#include "tests/common/environment.hpp"

namespace tessera {
namespace parse_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// What the command was given: a Commands entry is a plain function.
std::optional<TrainOptions> g_train;
std::optional<GenerateOptions> g_generate;
std::optional<CheckpointOptions> g_checkpoint;
std::optional<PlanOptions> g_plan;
std::optional<ScheduleOptions> g_schedule;

int parse(std::vector<const char*> words) {
  g_train.reset();
  g_generate.reset();
  g_checkpoint.reset();
  g_plan.reset();
  g_schedule.reset();
  words.insert(words.begin(), "tessera");
  Commands commands;
  commands.train = [](const TrainOptions& o) {
    g_train = o;
    return 0;
  };
  commands.generate = [](const GenerateOptions& o) -> int {
    g_generate = o;
    if (o.tokens == 13) fail_config("unlucky");
    if (o.tokens == 14) fail("unluckier");
    if (o.tokens == 15) throw std::runtime_error("unluckiest");
    return o.tokens == 16 ? 1 : 0;
  };
  commands.checkpoint = [](const CheckpointOptions& o) {
    g_checkpoint = o;
    return 0;
  };
  commands.plan = [](const PlanOptions& o) {
    g_plan = o;
    return 0;
  };
  commands.schedule = [](const ScheduleOptions& o) {
    g_schedule = o;
    return 0;
  };
  return run_program(static_cast<int>(words.size()), words.data(), commands);
}

TEST(Parse, PathsBeginAtTheHomeFolder) {
  const testing::EnvironmentVariable home("HOME", "/home/ann");
  EXPECT_EQ(parse({"train", "~/a.toml", "./~b.toml", "--set", "run.out=~/o"}), 0);
  EXPECT_THAT(g_train->files, ElementsAre("/home/ann/a.toml", "./~b.toml"));
  EXPECT_THAT(g_train->sets, ElementsAre("run.out=~/o")) << "read where all keys are";
  EXPECT_EQ(parse({"plan", "a.toml", "--svg=~/a.svg"}), 0);
  EXPECT_EQ(g_plan->svg, "/home/ann/a.svg");
  EXPECT_EQ(parse({"generate", "--checkpoint", "~"}), 0);
  EXPECT_EQ(g_generate->checkpoint, "/home/ann");
  EXPECT_EQ(parse({"checkpoint", "list", "~ann/runs"}), 2);
}

TEST(Parse, Train) {
  EXPECT_EQ(parse({"train", "a.toml", "--set", "x.y=1", "b.toml", "--set", "z=-2", "--json"}), 0);
  EXPECT_THAT(g_train->files, ElementsAre("a.toml", "b.toml"));
  EXPECT_THAT(g_train->sets, ElementsAre("x.y=1", "z=-2"));
  EXPECT_TRUE(g_train->json);
  EXPECT_EQ(parse({"train", "--set=lr.peak=1e-3", "a.toml"}), 0);
  EXPECT_THAT(g_train->sets, ElementsAre("lr.peak=1e-3"));
  EXPECT_FALSE(g_train->json);
}

TEST(Parse, HelpOfTrainSaysTheExitCodes) {
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(parse({"train", "--help"}), 0);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(),
              AllOf(HasSubstr("SIGHUP, SIGUSR1 and SIGUSR2"), HasSubstr("3 stopped by a signal")));
}

// CLI11 leaves out that an option is required where the option has a text of its own.
TEST(Parse, HelpOfConvertSaysWhatIsRequired) {
  Commands commands;
  commands.convert = [](const ConvertOptions&) { return 0; };
  const char* words[] = {"tessera", "convert", "--help"};
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(run_program(3, words, commands), 0);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(),
              AllOf(HasSubstr("--from DIR REQUIRED"), HasSubstr("--to DIR REQUIRED")));
}

TEST(Parse, ValuesOfASettingAreTakenAsTheyAre) {
  EXPECT_EQ(parse({"train", "a.toml", "--set", "scope=[\"attn\", \"mlp\"]", "--set", "s=a b"}), 0);
  EXPECT_THAT(g_train->sets, ElementsAre("scope=[\"attn\", \"mlp\"]", "s=a b"));
}

TEST(Parse, Generate) {
  EXPECT_EQ(parse({"generate", "--checkpoint", "runs/x"}), 0);
  EXPECT_EQ(g_generate->checkpoint, "runs/x");
  EXPECT_THAT(g_generate->prompt, IsEmpty());
  EXPECT_EQ(parse({"generate",
                   "--checkpoint",
                   "c",
                   "--prompt",
                   "Once upon",
                   "--tokens",
                   "7",
                   "--temperature",
                   "0.5",
                   "--seed",
                   "18446744073709551615"}),
            0);
  EXPECT_EQ(g_generate->prompt, "Once upon");
  EXPECT_EQ(g_generate->tokens, 7);
  EXPECT_EQ(g_generate->sampling.temperature, 0.5);
  EXPECT_EQ(g_generate->sampling.seed, ~u64{0});
  EXPECT_EQ(g_generate->batch, 8);
  EXPECT_EQ(parse({"generate", "--checkpoint", "c", "--prompts", "p.txt", "--batch", "3"}), 0);
  EXPECT_EQ(g_generate->prompts, "p.txt");
  EXPECT_EQ(g_generate->batch, 3);
}

TEST(Parse, Checkpoint) {
  EXPECT_EQ(parse({"checkpoint", "list", "runs/x"}), 0);
  EXPECT_EQ(g_checkpoint->action, CheckpointOptions::list);
  EXPECT_EQ(g_checkpoint->folder, "runs/x");
  EXPECT_EQ(parse({"checkpoint", "verify", "runs/y"}), 0);
  EXPECT_EQ(g_checkpoint->action, CheckpointOptions::verify);
}

TEST(Parse, Plan) {
  EXPECT_EQ(parse({"plan", "a.toml", "--world", "8", "--svg", "x.svg", "--hardware", "h.toml"}), 0);
  EXPECT_EQ(g_plan->world, 8);
  EXPECT_EQ(g_plan->svg, "x.svg");
  EXPECT_EQ(g_plan->hardware, "h.toml");
}

TEST(Parse, WrongUsageRunsNothing) {
  for (const std::vector<const char*>& words : std::vector<std::vector<const char*>>{
           {"train"},
           {"train", "a.toml", "--peak", "3"},
           {"train", "a.toml", "--set"},
           {"generate"},
           {"generate", "--checkpoint", "c", "--tokens", "0"},
           {"plan", "a.toml", "--imbalance", "nan"},
           {"plan", "a.toml", "--imbalance", "inf"},
           {"plan", "a.toml", "--imbalance", "0.5"},
           {"generate", "--checkpoint", "c", "--temperature", "nan"},
           {"generate", "--checkpoint", "c", "--temperature", "inf"},
           {"generate", "--checkpoint", "c", "--temperature", "1e999"},
           {"generate", "--checkpoint", "c", "--temperature", "-1"},
           {"generate", "--checkpoint", "c", "--seed", "-1"},
           {"generate", "--checkpoint", "c", "--prompts", ""},
           {"generate", "--checkpoint", "c", "--prompts", "p", "--prompt", "a"},
           {"generate", "--checkpoint", "c", "--prompts", "p", "--batch", "0"},
           {"generate", "--checkpoint", "c", "--prompt", "a", "--batch", "2"},
           {"generate", "--checkpoint", "c", "--seed", "18446744073709551616"},
           {"checkpoint"},
           {"checkpoint", "list"},
           {"checkpoint", "drop", "runs/x"},
           {"plan", "a.toml", "--world", "-1"},
           {"plan", "a.toml", "--world", "0"},
           {"plan", "a.toml", "--world", "99999999999999999999"},
           {"plan", "a.toml", "--svg", ""},
           {"plan", "a.toml", "--hardware", ""},
           {"schedule", "1f1b", "--ranks", "0", "--microbatches", "1"},
           {"schedule", "1f1b", "--ranks", "2", "--microbatches", "-1"},
           {"schedule", "1f1b", "--ranks", "2", "--microbatches", "2", "--chunks", "-1"},
           {"schedule", "1f1b", "--ranks", "2", "--microbatches", "2", "--svg", ""}}) {
    EXPECT_EQ(parse(words), 2) << words.back();
    EXPECT_FALSE(g_train || g_generate || g_checkpoint || g_plan || g_schedule) << words.back();
  }
}

TEST(Parse, ACommandThatIsNotThereIsNotOffered) {
  EXPECT_EQ(parse({"ranks", "--world-size", "4"}), 2);
  const char* words[] = {"tessera", "train", "a.toml"};
  EXPECT_EQ(run_program(3, words, {}), 2);
}

TEST(Parse, ExitCodes) {
  const auto with_tokens = [](const char* tokens) {
    return parse({"generate", "--checkpoint", "c", "--tokens", tokens});
  };
  EXPECT_EQ(with_tokens("12"), 0);
  EXPECT_EQ(with_tokens("13"), 2);
  EXPECT_EQ(with_tokens("14"), 1);
  EXPECT_EQ(with_tokens("15"), 1);
  EXPECT_EQ(with_tokens("16"), 1);
}

}  // namespace parse_test
}  // namespace tessera

// `tessera data build` and `overlap` as a user starts them, and as they are killed.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <random>
#include <string>
#include <thread>

#include "program_support.hpp"
#include "tessera/io/data_file.hpp"

namespace tessera {
namespace data_build_test {

using testing::run_tessera;
using testing::tessera_program;
using testing::TestFolder;

const std::string kKeys =
    "schema = 1\ninput = [\"*.jsonl\"]\noutput = \"o/out\"\ntokenizer = {type = \"byte\"}\n";

TEST(DataBuild, DocumentsBecomeATokenFile) {
  const TestFolder folder;
  folder.write(
      "part-1.jsonl",
      "{\"id\":\"a\",\"text\":\"the first document\"}\n{\"text\":\"the first document.\"}\n"
      "{\"text\":\"another one\\r\\n\"}\n");
  const std::string file = folder.write(
      "c.toml", kKeys + "stages = [{type = \"clean\"}, {type = \"near_duplicates\"}]\n");
  EXPECT_THAT(run_tessera({"data", "build", file}),
              Prints(0,
                     "stage                 documents      changed      removed   characters out",
                     "clean                         3            1            0               49",
                     "near_duplicates               3            0            1               30",
                     "o/out: 2 documents, 30 tokens\n"));
  EXPECT_EQ(folder.read("o/out.removed.jsonl"),
            "{\"id\":\"part-1.jsonl:2\",\"stage\":\"near_duplicates\",\"reason\":\"like another "
            "document\",\"twin\":\"a\",\"similarity\":0.9333333333333333}\n");
  EXPECT_FALSE(std::filesystem::exists(folder.at("o/out.build")));
  EXPECT_THAT(run_tessera({"data", "build", file}), Exits(2, "is there already", "--force"));
  EXPECT_THAT(run_tessera({"data", "build", file, "--force", "--set", "shards=2"}),
              Prints(0, "o/out-00000-of-00002 to ", "o/out-00001-of-00002: 2 documents"));

  folder.write("part-3.jsonl", std::string(117, '\n') + "{\"body\":\"x\"}\n");
  EXPECT_THAT(run_tessera({"data", "build", file, "--force"}),
              Exits(1, "part-3.jsonl:118: no field \"text\""));
  EXPECT_THAT(run_tessera({"data", "build", file, "--set", "stages.2.similarity=2"}),
              Exits(2, "--set #1: [stages.2] similarity: "));
}

TEST(DataBuild, ShareOfRunsOfWordsThatATrainingHas) {
  const TestFolder folder;
  folder.write("train.jsonl", "{\"text\":\"zero one, two three FOUR five\"}\n");
  const std::string test =
      folder.write("test.txt", "one two three four five six one two three four");
  const std::vector<std::string> words = {
      "data", "overlap", "--test", test, "--train", folder.at("*.jsonl"), "--words", "3"};
  // one two three, two three four, three four five, four five six, five six one, six one two, and
  // the first two again.
  EXPECT_THAT(
      run_tessera(words),
      Prints(0,
             "62.50 % of the test's runs of 3 words stand in the training's texts: 5 of 8\n",
             "50.00 % of those that differ: 3 of 6\n"));
  std::vector<std::string> json = words;
  json.emplace_back("--json");
  EXPECT_EQ(run_tessera(json).out,
            "{\"words\":3,\"runs\":8,\"found\":5,\"distinct\":6,\"distinct_found\":3}\n");
  EXPECT_THAT(run_tessera({"data", "overlap", "--test", test, "--train", test, "--words", "11"}),
              Exits(2, "--test: no text in it has 11 words"));
}

// Documents of which every fourth is much like an earlier one.
std::string corpus(u32 documents) {
  std::mt19937_64 random(9);
  std::vector<std::string> texts;
  std::string lines;
  for (u32 i = 0; i < documents; ++i) {
    std::string text;
    if (i % 4 == 3) {
      text = texts[random() % texts.size()].substr(40);
    } else {
      for (int k = 0; k < 50; ++k) text += std::to_string(random()) + " ";
    }
    texts.push_back(text);
    lines += "{\"text\":\"" + text + "\"}\n";
  }
  return lines;
}

bool same_files(const std::string& a, const std::string& b) {
  for (const char* end : {".bin", ".idx", ".report.json", ".removed.jsonl"}) {
    if (DataFile(a + end).text() != DataFile(b + end).text()) return false;
  }
  return true;
}

// Killed at any moment a build leaves no index, or a whole one; started again it ends in the same
// bytes.
TEST(DataBuild, KilledAtTenMoments) {
  const TestFolder folder;
  folder.write("a.jsonl", corpus(16'000));
  folder.write("b.jsonl", corpus(3'000));
  const std::string file =
      folder.write("c.toml",
                   kKeys +
                       "threads = 2\nstages = [{type = \"clean\"}, {type = \"near_duplicates\"},\n"
                       "  {type = \"length\", tokens = 900}]\n");
  const std::string right = folder.at("o/right");
  const auto command = [&](const std::string& output) {
    return std::vector<std::string>{"data", "build", file, "--set", "output=" + output};
  };
  const auto started = std::chrono::steady_clock::now();
  ASSERT_THAT(run_tessera(command(right)), Exits(0, ""));
  std::chrono::duration<double> whole = std::chrono::steady_clock::now() - started;
  int killed = 0;
  for (int moment = 1, ended = 0; moment <= 10; ++moment) {
    const std::string output = folder.at(fmt::format("o/{}-{}", moment, ended));
    std::vector<std::string> program = command(output);
    program.insert(program.begin(), tessera_program());
    {
      Process process(program);
      std::this_thread::sleep_for(whole * moment / 11);
      process.send(SIGKILL);
      if (process.wait().signal == SIGKILL) {
        ++killed;
      } else if (++ended < 20) {  // the first build had fewer processors: that moment again, sooner
        whole *= 0.8;
        --moment;
        continue;
      }
    }
    const bool done = std::filesystem::exists(output + ".idx");
    if (done) EXPECT_TRUE(same_files(output, right)) << moment;
    if (!done || std::filesystem::exists(output + ".build")) {
      ASSERT_THAT(run_tessera(command(output)), Exits(0, "")) << moment;
    }
    EXPECT_TRUE(same_files(output, right)) << moment;
    EXPECT_FALSE(std::filesystem::exists(output + ".build")) << moment;
    for (const char* end : {".bin", ".idx", ".report.json", ".removed.jsonl"}) {
      EXPECT_FALSE(std::filesystem::exists(output + end + ".partial")) << moment;
    }
  }
  EXPECT_GE(killed, 7) << "the others had ended";
}

TEST(DataBuild, TwoAtOnceOfOneOutput) {
  const TestFolder folder;
  folder.write("a.jsonl", corpus(16'000));
  const std::string file = folder.write("c.toml", kKeys);
  Process first({tessera_program(), "data", "build", file, "--set", "threads=1"});
  while (!std::filesystem::exists(folder.at("o/out.build/chunk-0-0"))) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  first.send(SIGSTOP);
  EXPECT_THAT(run_tessera({"data", "build", file}),
              Exits(1, "another build writes to ", "give another output"));
  first.send(SIGCONT);
  EXPECT_EQ(first.wait().exit_code, 0);
}

}  // namespace data_build_test
}  // namespace tessera

// `tessera tokenizer train` as a user starts it, and as it is killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "program_support.hpp"
#include "tessera/types.hpp"

namespace tessera {
namespace tokenizer_train_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::run_tessera;
using testing::tessera_program;
using testing::TestFolder;

const std::string kKeys =
    "schema = 1\ninput = [\"*.jsonl\", \"more.txt\"]\noutput = \"o/out.model\"\n"
    "trainer = {type = \"unigram\", vocabulary = 300}\n";

std::string corpus(int documents) {
  std::mt19937_64 random(4);
  std::vector<std::string> words(300);
  for (std::string& word : words) {
    for (u64 letters = 3 + random() % 6; letters > 0; --letters) {
      word += static_cast<char>('a' + random() % 26);
    }
  }
  std::string lines;
  for (int i = 0; i < documents; ++i) {
    lines += "{\"text\":\"";
    for (int k = 0; k < 100; ++k) lines += words[random() % words.size()] + " ";
    lines += "\"}\n";
  }
  return lines;
}

// Names in the output's folder.
std::vector<std::string> made_in(const TestFolder& folder) {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(folder.at("o"))) {
    names.push_back(file.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

void write_files(const TestFolder& folder, int documents) {
  folder.write("a.jsonl", corpus(documents));
  folder.write("more.txt", "one text of two lines\nword1 word2\n");
}

TEST(TokenizerTrain, AFileThatBuildsAndRunsRead) {
  const TestFolder folder;
  write_files(folder, 20);
  const std::string file = folder.write("t.toml", kKeys), model = folder.at("o/out.model");
  folder.write("o/out.model.partial", "somebody's");
  EXPECT_THAT(run_tessera({"tokenizer", "train", file}),
              Prints(0,
                     "unigram trains on ",
                     " in 21 documents\n",
                     model + ": 300 tokens, ",
                     " bytes of text a token, in ",
                     "tokenizer = {type = \"sentencepiece\", path = \"" + model + "\"}\n"));
  EXPECT_THAT(made_in(folder), ElementsAre("out.model", "out.model.partial"));
  EXPECT_EQ(folder.read("o/out.model.partial"), "somebody's");
  const std::string build =
      folder.write("b.toml",
                   "schema = 1\ninput = [\"*.jsonl\"]\noutput = \"tokens\"\n"
                   "tokenizer = {type = \"sentencepiece\", path = \"o/out.model\"}\n");
  EXPECT_THAT(run_tessera({"data", "build", build}), Prints(0, "tokens: 20 documents, "));
  EXPECT_THAT(run_tessera({"data", "show", folder.at("tokens")}),
              Prints(0, "sentencepiece: 300 tokens, "));

  EXPECT_THAT(run_tessera({"tokenizer", "train", file}),
              Exits(2, "o/out.model is there already: give another output, or --force"));
  const std::string before = folder.read("o/out.model");
  EXPECT_THAT(run_tessera({"tokenizer", "train", file, "--force"}), Exits(0, ""));
  EXPECT_EQ(folder.read("o/out.model"), before);
  // Two at a time.
  Process other({tessera_program(), "tokenizer", "train", file, "--force"});
  EXPECT_THAT(run_tessera({"tokenizer", "train", file, "--force"}), Exits(0, ""));
  EXPECT_EQ(other.wait().exit_code, 0);
  EXPECT_EQ(folder.read("o/out.model"), before);
  EXPECT_THAT(made_in(folder), ElementsAre("out.model", "out.model.partial"));
  // On one processor, too.
  Process one({"/usr/bin/taskset",
               "1",
               tessera_program(),
               "tokenizer",
               "train",
               file,
               "--set",
               "output=" + folder.at("one.model")});
  EXPECT_EQ(one.wait().exit_code, 0);
  EXPECT_EQ(folder.read("one.model"), before);
}

TEST(TokenizerTrain, WhatIsWrong) {
  const TestFolder folder;
  write_files(folder, 20);
  const std::string file = folder.write("t.toml", kKeys);
  const auto with = [&](const std::string& set) {
    return run_tessera({"tokenizer", "train", file, "--set", set});
  };
  EXPECT_THAT(with("trainer.vocabulary=30000"),
              Exits(2, "trainer.vocabulary = 30000: these texts give at most "));
  EXPECT_THAT(with("trainer.vocabulary=262"),
              Exits(2, "trainer.vocabulary = 262: special tokens, bytes and the characters"));
  EXPECT_THAT(with("trainer.vocabulary=259"), Exits(2, "--set #1: [trainer] vocabulary: expected"));
  EXPECT_THAT(with("trainer.type=\"bep\""), Exits(2, "did you mean \"bpe\"?"));
  EXPECT_THAT(with("trainer.vocab_size=1"), Exits(2, "[trainer] unknown key \"vocab_size\""));
  EXPECT_THAT(with("sample_mib=0"), Exits(2, "sample_mib: expected integer in [1, 1024]"));
  EXPECT_THAT(with("input=[\"none.jsonl\"]"), Exits(2, "input: there is no file "));
  folder.write("empty.jsonl", "{\"text\":\"\"}\n");
  EXPECT_THAT(with("input=[\"" + folder.at("empty.jsonl") + "\"]"),
              Exits(2, "input: there is no text in 1 documents"));
  folder.write("bad.jsonl", "{\"text\":\"a\"}\n{\"text\":\"\xFF\"}\n");
  EXPECT_THAT(with("text_field=\"text\""),
              Exits(1, "bad.jsonl:2: byte 10 of the line is no UTF-8"));
  folder.write("bad.jsonl", "{\"body\":\"a\"}\n");
  EXPECT_THAT(with("text_field=\"text\""), Exits(1, "bad.jsonl:1: no field \"text\""));
  folder.write("bad.jsonl", "{\"text\":\"" + std::string(2 << 20, 'x') + "\"}\n");
  EXPECT_THAT(run_tessera({"tokenizer",
                           "train",
                           file,
                           "--set",
                           "sample_mib=1",
                           "--set",
                           "input=[\"" + folder.at("bad.jsonl") + "\"]"}),
              Exits(2, "sample_mib = 1: each line of the input is longer"));
  EXPECT_THAT(made_in(folder), IsEmpty());
}

// The input is damaged, which a look at the output comes before.
TEST(TokenizerTrain, AnOutputThatCannotBeWrittenIsToldFirst) {
  const TestFolder folder;
  folder.write("a.txt", "\xFF");
  folder.write("x/file.txt", "\xFF");
  const std::string file = folder.write("t.toml",
                                        "schema = 1\ninput = [\"a.txt\"]\noutput = \"m\"\n"
                                        "trainer = {type = \"bpe\", vocabulary = 300}\n");
  const auto to = [&](const std::string& output) {
    return run_tessera(
        {"tokenizer", "train", file, "--force", "--set", "output=\"" + output + "\""});
  };
  EXPECT_THAT(to(folder.at("m")), Exits(1, "a.txt: byte 1 is no UTF-8"));
  EXPECT_THAT(to(folder.at("x")), Exits(2, "output: " + folder.at("x") + " is a folder: name a"));
  EXPECT_THAT(to(""), Exits(2, "output: it is empty: name a file"));
  EXPECT_THAT(to("/dev/null"), Exits(2, "output: /dev/null is no regular file, and is not repl"));
  EXPECT_THAT(to(folder.at("a.txt/m")), Exits(2, "output: cannot create the folder "));
  EXPECT_THAT(to(folder.at(std::string(250, 'm'))), Exits(2, "output: cannot write "));
  std::filesystem::create_directory_symlink(".", folder.at("same"));
  for (const char* own : {"a.txt", "./x/../a.txt", "same/a.txt"}) {
    EXPECT_THAT(to(folder.at(own)),
                Exits(2, "output is one of the input files: " + folder.at("a.txt") + " would be"));
  }
  EXPECT_EQ(folder.read("a.txt"), "\xFF");
}

TEST(TokenizerTrain, MoreThanTheSampleIsToldAndChosenBySeed) {
  const TestFolder folder;
  write_files(folder, 4000);
  const std::string file = folder.write("t.toml", kKeys);
  const auto made = [&](const std::string& seed) {
    EXPECT_THAT(
        run_tessera({"tokenizer",
                     "train",
                     file,
                     "--force",
                     "--set",
                     "sample_mib=1",
                     "--set",
                     "seed=" + seed}),
        Prints(0, "unigram trains on 102", " KiB of 2.", "which seed = " + seed + " chose, in"));
    return folder.read("o/out.model");
  };
  const std::string one = made("1");
  EXPECT_EQ(made("1"), one);
  EXPECT_NE(made("2"), one);
}

TEST(TokenizerTrain, KilledItLeavesNothingOrAll) {
  const TestFolder folder;
  write_files(folder, 1500);
  const std::string file = folder.write("t.toml", kKeys), model = folder.at("o/out.model");
  const auto started = std::chrono::steady_clock::now();
  ASSERT_THAT(run_tessera({"tokenizer", "train", file}), Exits(0, ""));
  const std::chrono::duration<double> whole = std::chrono::steady_clock::now() - started;
  const std::string right = folder.read("o/out.model");
  for (int moment = 1; moment <= 5; ++moment) {
    std::filesystem::remove(model);
    Process process({tessera_program(), "tokenizer", "train", file});
    std::this_thread::sleep_for(whole * moment / 5.5);
    process.send(SIGKILL);
    process.wait();
    if (std::filesystem::exists(model)) EXPECT_EQ(folder.read("o/out.model"), right) << moment;
    ASSERT_THAT(run_tessera({"tokenizer", "train", file, "--force"}), Exits(0, "")) << moment;
    EXPECT_EQ(folder.read("o/out.model"), right);
  }
}

}  // namespace tokenizer_train_test
}  // namespace tessera

// The scripts of examples/; run_plugins.sh is a part of author_test.cpp.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <set>
#include <sstream>

#include "program_support.hpp"

namespace tessera {
namespace examples_test {

TEST(Examples, TheTextGoesIntoNoFolderThatHasOtherFiles) {
  const testing::TestFolder folder;
  folder.write("notes.md", "mine");
  EXPECT_THAT(run_process({TESSERA_SOURCE_DIR "/examples/fetch_shakespeare.sh",
                           folder.path().string() + "/"}),
              Exits(1, ::testing::HasSubstr("has other files; give an empty folder")));
  EXPECT_EQ(folder.read("notes.md"), "mine");
}

// Pages of this tree in the place of packages, models of a few steps.
TEST(Examples, ACorpusGoesFromDocumentsToMeasuredModels) {
  const testing::TestFolder folder;
  const ProcessResult made = run_process({TESSERA_SOURCE_DIR "/examples/corpus.sh",
                                          "--short",
                                          "--tessera",
                                          testing::tessera_program(),
                                          "--out",
                                          folder.path().string()});
  ASSERT_EQ(made.exit_code, 0) << made.err << made.out;
  EXPECT_THAT(made.out, ::testing::ContainsRegex("\ntokens +20 steps .* bits a byte [0-9]\\."));
  EXPECT_THAT(made.out, ::testing::ContainsRegex("\nbytes +20 steps .* bits a byte [0-9]\\."));
  // No document is on both sides.
  const std::string train = folder.read("train.jsonl"), held_out = folder.read("held-out.jsonl");
  std::istringstream lines(held_out);
  i64 documents = 0;
  for (std::string line; std::getline(lines, line); ++documents) {
    const std::string text = line.substr(line.find("\"text\": "));
    EXPECT_EQ(train.find(text), std::string::npos) << line.substr(0, 80);
  }
  EXPECT_GT(documents, 0);
}

// Plays of two lines a hundred times over, in the place of those of Shakespeare.
TEST(Examples, ATextOfPlaysIsReadyForBert) {
  const testing::TestFolder folder;
  std::string lines;
  for (int i = 0; i < 100; ++i) lines += "Speak; I charge thee, speak!\nStay, illusion.\n";
  folder.write("plays/one.txt", lines);
  folder.write("plays/two.txt", lines);
  const std::vector<std::string> make = {"/usr/bin/env",
                                         "PLAYS=" + folder.at("plays"),
                                         TESSERA_SOURCE_DIR "/examples/bert_text.sh",
                                         folder.at("bert"),
                                         testing::tessera_program()};
  ASSERT_EQ(run_process(make).exit_code, 0);
  EXPECT_THAT(folder.read("bert/vocab.txt"), ::testing::HasSubstr("\nspeak\ncharge\n"));
  const std::string config = TESSERA_SOURCE_DIR "/configs/bert_tiny.toml";
  const std::string data = "data.path=[\"" + folder.at("bert/plays") + "\"]";
  const ProcessResult trained = run_process({testing::tessera_program(),
                                             "train",
                                             config,
                                             "--set",
                                             data,
                                             "--set",
                                             "tokenizer.path=" + folder.at("bert/vocab.txt"),
                                             "--set",
                                             "run.out=" + folder.at("run"),
                                             "--set",
                                             "run.steps=2",
                                             "--set",
                                             "lr.warmup_steps=1",
                                             "--set",
                                             "validation.every_steps=0"});
  EXPECT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_THAT(run_process(make).out, ::testing::HasSubstr("plays.idx is there"));
}

TEST(Examples, PiecesOfADocumentAreForTrainingOrForMeasuring) {
  const testing::TestFolder folder;
  std::vector<std::string> make = {TESSERA_SOURCE_DIR "/examples/corpus/sources.py",
                                   "--pieces",
                                   "40",
                                   folder.at("train.jsonl"),
                                   folder.at("test.jsonl")};
  for (const std::string source : {"one", "two"}) {
    std::string lines;
    for (int i = 0; i < 40; ++i) {
      std::string text;
      for (int word = 0; word < 80; ++word) text += fmt::format("{}x{} word ", source, i);
      lines += "{\"text\": \"" + text + "\"}\n";
    }
    make.push_back(folder.write(source + ".jsonl", lines));
  }
  const ProcessResult made = run_process(make);
  ASSERT_EQ(made.exit_code, 0) << made.err;
  std::set<std::string> documents[2], labels[2];
  for (const int test : {0, 1}) {
    std::istringstream lines(folder.read(test == 0 ? "train.jsonl" : "test.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const std::size_t at = std::string_view("{\"text\": \"").size();
      documents[test].insert(line.substr(at, line.find(' ', at) - at));
      labels[test].insert(line.substr(line.find("\"label\"")));
    }
    EXPECT_EQ(labels[test].size(), 2U);
    EXPECT_GT(documents[test].size(), 4U);
  }
  for (const std::string& document : documents[1]) {
    EXPECT_FALSE(documents[0].contains(document)) << document;
  }
}

// In the place of the program, a script that writes what each command would.
TEST(Examples, ModelsOfACorpusTrainAgainForAnotherTime) {
  const testing::TestFolder folder;
  for (const char* made : {"held-out.jsonl", "vocabulary.model", "tokens.idx", "bytes.idx"}) {
    folder.write(made, "");
  }
  const std::string program = folder.write("program", R"(#!/usr/bin/env bash
echo "$1" >>"${0%/*}/commands"
for word; do case $word in run.out=*) run=${word#*=} ;; esac; done
case $1 in
  train) mkdir -p "$run"; echo '{"step":1,"loss":2}' >"$run/metrics.jsonl" ;;
  eval) case $4 in
    */tokens) echo '{"bits_per_byte":1,"word_perplexity":2}' ;;
    *) echo '{"bits_per_byte":2,"word_perplexity":2}' ;;
  esac ;;
esac
)");
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const auto commands = [&](const std::string& minutes) {
    std::filesystem::remove(folder.at("commands"));
    const ProcessResult made = run_process({TESSERA_SOURCE_DIR "/examples/corpus.sh",
                                            "--minutes",
                                            minutes,
                                            "--tessera",
                                            program,
                                            "--out",
                                            folder.path().string()});
    EXPECT_EQ(made.exit_code, 0) << made.err << made.out;
    return folder.read("commands");
  };
  EXPECT_EQ(commands("1"), "train\ntrain\neval\neval\n");
  EXPECT_EQ(commands("1"), "eval\neval\n") << "what is done is not done again";
  EXPECT_EQ(commands("2"), "train\ntrain\neval\neval\n");
  folder.write("runs/bytes/complete", "");  // of an older script
  EXPECT_EQ(commands("2"), "train\neval\neval\n");
}

}  // namespace examples_test
}  // namespace tessera

// The scripts of examples/; run_plugins.sh is a part of author_test.cpp.
#include <gmock/gmock.h>

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

}  // namespace examples_test
}  // namespace tessera

// Data that says which positions its tokens have, for a model that knows fewer than a sample has
// places: right where they begin anew in time, and found before a run where they do not.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "train_support.hpp"

namespace tessera::testing {
namespace positions_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Words = std::vector<std::string>;

class Positions : public ::testing::Test {
 protected:
  // Of examples of 6 tokens, several of which share a sample of 16, so that positions are 0 to 5;
  // of the one in the middle they are 0 to 9.
  static std::string examples(int longer) {
    std::string lines;
    for (int i = 0; i < 200; ++i) {
      const char* answer = i == longer ? "abcdefgh" : "abcd";
      lines += fmt::format("{{\"prompt\": \"{:03}\", \"answer\": \"{}\"}}\n", i, answer);
    }
    return lines;
  }
  void SetUp() override {
    run_.folder.write("short.jsonl", examples(-1));
    run_.folder.write("longer.jsonl", examples(100));
  }
  // What is wrong; empty: nothing.
  std::string check(const Words& sets, Words words = {"config", "check"}) const {
    words.push_back(run_.at("tiny.toml"));
    for (const std::string set : {"run.steps=40",
                                  "batch.sequence_length=16",
                                  "batch.global=4",
                                  "batch.micro=2",
                                  "data.type=instructions",
                                  "data.eos=false",
                                  "data.pack=examples",
                                  "model.positions=6"}) {
      words.insert(words.end(), {"--set", set});
    }
    for (const std::string& set : sets) words.insert(words.end(), {"--set", set});
    const ProcessResult result = run_tessera(words, run_.options());
    EXPECT_EQ(result.exit_code, result.err.empty() ? 0 : 2);
    return result.err;
  }
  TinyRun run_;
};

TEST_F(Positions, OfLaterSamplesAreLookedAtBeforeARun) {
  EXPECT_THAT(check({"data.path=[\"short.jsonl\"]", "data.validation=0"}), IsEmpty());
  EXPECT_THAT(check({"data.path=[\"longer.jsonl\"]", "data.validation=0"}),
              HasSubstr("of the training set has 6 in \"positions\", whose values are 0 to 5 "
                        "(positions)"));
  EXPECT_THAT(check({"data.path=[\"longer.jsonl\"]", "data.validation=0", "model.positions=10"}),
              IsEmpty());
  const Words validated = {"data.path=[\"short.jsonl\"]",
                           "data.validation_path=[\"longer.jsonl\"]",
                           "validation.every_steps=10"};
  EXPECT_THAT(check(validated),
              HasSubstr("of the validation set has 6 in \"positions\", whose values are 0 to 5 "
                        "(positions)"));
}

// A dry step of it reads the first samples.
TEST_F(Positions, OfTheFirstSampleAreFoundByAPlan) {
  const Words sets = {"data.path=[\"one.jsonl\"]", "data.validation=0"};
  run_.folder.write("one.jsonl", "{\"prompt\": \"000\", \"answer\": \"abcdefgh\"}\n");
  EXPECT_THAT(check(sets, {"plan"}), HasSubstr("sample 0 of the training set has 6 in"));
}

// Where positions are places, the length says it all.
TEST_F(Positions, ThatAreNotTheDatasAreComparedWithTheLength) {
  EXPECT_THAT(check({"data.path=[\"short.jsonl\"]", "data.validation=0", "data.pack=none"}),
              HasSubstr("model.positions = 6 are fewer than batch.sequence_length = 16"));
}

}  // namespace positions_test
}  // namespace tessera::testing

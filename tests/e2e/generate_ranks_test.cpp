// Text of a model that several ranks share.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <csignal>

#include "train_support.hpp"

namespace tessera {
namespace generate_ranks_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::rank_process;
using testing::run_tessera;
using ::testing::StartsWith;
using testing::TinyRun;

class GenerateRanks : public ::testing::Test {
 protected:
  // Weights are so large that a token depends on all before it.
  void train(std::vector<std::string> model = {}) {
    model.emplace_back("model.init_std=0.5");
    const ProcessResult trained = run_.train(TinyRun::steps(2, "run", model));
    ASSERT_EQ(trained.exit_code, 0) << trained.err;
    run_.folder.write("prompts.txt", "the king\na\nqueen of the night, and\nno\nday. \n");
  }
  std::vector<std::string> arguments(int ranks, const std::vector<std::string>& more) const {
    std::vector<std::string> words = {
        "generate", "--checkpoint", run_.at("run"), "--ranks", std::to_string(ranks)};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  ProcessResult run(int ranks, const std::vector<std::string>& more) const {
    return run_tessera(arguments(ranks, more), run_.options());
  }
  std::vector<std::string> prompts(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"--prompts",
                                      run_.at("prompts.txt"),
                                      "--tokens",
                                      "20",
                                      "--seed",
                                      "3",
                                      "--stop",
                                      "b",
                                      "--stop",
                                      "m"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // A text without an end.
  std::vector<std::string> endless(int ranks) const {
    std::vector<std::string> words = arguments(
        ranks,
        {"--prompt", "the", "--tokens", "100000000", "--top-k", "1", "--set", "comm.timeout_s=5"});
    words.insert(words.begin(), testing::tessera_program());
    return words;
  }
  TinyRun run_;
};

constexpr const char* kNote = "a layer of this model needs whole sequences";

TEST_F(GenerateRanks, TheTextsAreThoseOfOneRank) {
  train({"parallel.pipeline=2"});
  const ProcessResult one = run(1, prompts({"--json"}));
  ASSERT_EQ(one.exit_code, 0) << one.err;
  EXPECT_THAT(one.out, AllOf(HasSubstr("\"stop\""), HasSubstr("\"length\"")));
  for (const int ranks : {2, 3}) {
    const ProcessResult several = run(ranks, prompts({"--json", "--batch", "3"}));
    EXPECT_EQ(several.exit_code, 0) << several.err;
    EXPECT_EQ(several.out, one.out);
    EXPECT_THAT(several.err, Not(HasSubstr(kNote)));
  }
  // For people, and one prompt.
  EXPECT_EQ(run(2, prompts()).out, run(1, prompts()).out);
  const std::vector<std::string> greedy = {"--prompt", "the", "--temperature", "0"};
  EXPECT_EQ(run(2, greedy).out, run(1, greedy).out);
  EXPECT_EQ(run(2, {"--prompt", "the", "--ids"}).out, "[116,104,101]\n");
  EXPECT_THAT(run_.survivors(), IsEmpty());
}

// Experts keep no rows of earlier tokens where several ranks share them.
TEST_F(GenerateRanks, ExpertsToo) {
  train({"model.block.mlp.type=moe", "model.block.mlp.experts=4", "model.block.mlp.ffn=16"});
  const ProcessResult one = run(1, prompts({"--json"})), two = run(2, prompts({"--json"}));
  EXPECT_EQ(two.exit_code, 0) << two.err;
  EXPECT_EQ(two.out, one.out);
  EXPECT_THAT(one.err, Not(HasSubstr(kNote)));
  EXPECT_THAT(two.err, HasSubstr(kNote));
  EXPECT_THAT(two.err.substr(two.err.find(kNote) + 1), Not(HasSubstr(kNote))) << "told once";
}

TEST_F(GenerateRanks, WhatIsWrongIsToldOnceBeforeRanksStart) {
  train();
  const auto expect = [&](int ranks, const std::vector<std::string>& more, const char* error) {
    std::vector<std::string> words = {"--prompt", "the"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult refused = run(ranks, words);
    EXPECT_EQ(refused.exit_code, 2) << error;
    EXPECT_THAT(refused.err, AllOf(HasSubstr(error), Not(HasSubstr("[rank"))));
    EXPECT_THAT(refused.err.substr(refused.err.find(error) + 1), Not(HasSubstr(error)));
    EXPECT_EQ(refused.out, "");
  };
  expect(4, {}, "6 heads do not divide among parallel.tensor = 4 ranks");
  expect(30000, {}, "30000 ranks are too many for the");
  expect(0, {}, "--ranks");
  expect(2,
         {"--set", "parallel.tensor=1", "--set", "parallel.pipeline=2"},
         "--ranks 2 cuts the model over parallel.tensor alone, which --set made 1");
  expect(2, {"--set", "parallel.data=2"}, "[parallel] data = 2, but 2 ranks with tensor 2");
  expect(2, {"--top-p", "0"}, "--top-p 0: above 0 and at most 1");
  expect(2, {"--set", "model.layers=3"}, "does not fit this configuration");
}

TEST_F(GenerateRanks, AKilledRankEndsAll) {
  train();
  Process made(endless(2), run_.options());
  ASSERT_TRUE(made.shows("the")) << made.err();
  kill(rank_process(run_.mark(), 1), SIGKILL);
  EXPECT_THAT(made.wait(), EndsOn(1, StartsWith("rank 1 was killed by signal 9 (Killed)")));
  EXPECT_THAT(run_.survivors(), IsEmpty());
}

TEST_F(GenerateRanks, CtrlCEndsAll) {
  train();
  Process made(endless(2), run_.options());
  ASSERT_TRUE(made.shows("the")) << made.err();
  made.send(SIGINT);
  const ProcessResult result = made.wait();
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_THAT(result.err, Not(HasSubstr("steps")));
  EXPECT_THAT(run_.survivors(), IsEmpty());
}

TEST_F(GenerateRanks, NobodyIsToBlameWhereTheReaderGoes) {
  train();
  std::string words;
  for (const std::string& word : endless(2)) words += " '" + word + "'";
  const ProcessResult result = run_process(
      {"bash", "-c", words + " | head -c 20 > /dev/null; exit ${PIPESTATUS[0]}"}, run_.options());
  EXPECT_EQ(result.exit_code, 141);
  EXPECT_EQ(result.err, "");
}

}  // namespace generate_ranks_test
}  // namespace tessera

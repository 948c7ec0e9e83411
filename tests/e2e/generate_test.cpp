// What ends a generated text, and how it is printed.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/gpt2_files.hpp"
#include "train_support.hpp"

namespace tessera {
namespace generate_test {

using ::testing::HasSubstr;
using testing::run_tessera;
using testing::TinyRun;

constexpr auto replaced = nlohmann::json::error_handler_t::replace;

class Generate : public ::testing::Test {
 protected:
  // A model over a small vocabulary of GPT-2's form, hardly trained: it draws this and that.
  void SetUp() override {
    testing::Gpt2Files files;
    files.merge("t", "h");
    end_ = files.add("<|endoftext|>");
    run_.folder.write("words/vocab.json", files.vocabulary());
    run_.folder.write("words/merges.txt", files.merges());
    const ProcessResult trained = run_.train(TinyRun::steps(
        1, "run", {"tokenizer.type=gpt2", "tokenizer.path=\"" + run_.at("words") + "\""}));
    if (trained.err.find("without: install libpcre2-dev") != std::string::npos) {
      GTEST_SKIP() << trained.err;
    }
    ASSERT_EQ(trained.exit_code, 0) << trained.err;
  }
  ProcessResult run(std::vector<std::string> more) const {
    more.insert(more.begin(),
                {"generate", "--checkpoint", run_.at("run"), "--prompt", "the", "--tokens", "12"});
    return run_tessera(more);
  }
  ProcessResult run_file(const std::string& file, std::vector<std::string> more) const {
    more.insert(more.end(), {"--tokens", "12"});
    return only(file, more);
  }
  // Without what is drawn.
  ProcessResult only(const std::string& file, std::vector<std::string> more) const {
    more.insert(more.begin(),
                {"generate", "--checkpoint", run_.at("run"), "--prompts", run_.at(file)});
    return run_tessera(more);
  }
  nlohmann::json object(std::vector<std::string> more) const {
    more.emplace_back("--json");
    const ProcessResult result = run(more);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out);
  }
  TinyRun run_;
  i32 end_ = 0;
};

TEST_F(Generate, OneObjectForPrograms) {
  const nlohmann::json made = object({"--seed", "3"});
  EXPECT_EQ(made["prompt"], "the");
  EXPECT_EQ(made["end"], "length");
  EXPECT_EQ(made["tokens"].size(), 12U);
  EXPECT_EQ(made.size(), 4U);
  EXPECT_NE(object({"--seed", "4"})["tokens"], made["tokens"]);
}

TEST_F(Generate, EndsByTheTokenThatTheModelCameWith) {
  const nlohmann::json whole = object({"--seed", "3"});
  const std::vector<i32> tokens = whole["tokens"];
  // The fourth token, or the next one that does not come before.
  auto last = tokens.begin() + 3;
  while (std::find(tokens.begin(), last, *last) != last) ++last;
  run_.folder.write("words/token_ids.json", fmt::format("{{\"eos_token_id\": [{}]}}", *last));
  const nlohmann::json ended = object({"--seed", "3"});
  EXPECT_EQ(ended["tokens"], std::vector<i32>(tokens.begin(), last + 1));
  EXPECT_EQ(ended["end"], "eos");
  const std::string text = ended["text"], all = whole["text"];
  EXPECT_EQ(object({"--seed", "3", "--ignore-eos"}), whole);
  const ProcessResult plain = run({"--seed", "3"});
  EXPECT_TRUE(plain.out.starts_with("the"));
  EXPECT_TRUE(plain.out.ends_with("\n"));
  EXPECT_LT(plain.out.size(), run({"--seed", "3", "--ignore-eos"}).out.size());
  // Without that file, the tokenizer's own.
  run_.folder.write("words/token_ids.json", "{}");
  EXPECT_EQ(object({"--seed", "3"}), whole);
  run_.folder.write("words/tokenizer_config.json",
                    R"({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "th"})");
  EXPECT_EQ(run({"--seed", "3"}).exit_code, 0);
}

TEST_F(Generate, SpecialTokensOfThePromptAreParsed) {
  const ProcessResult ids = run_tessera(
      {"generate", "--checkpoint", run_.at("run"), "--prompt", "a<|endoftext|>", "--ids"});
  EXPECT_EQ(ids.out, fmt::format("[97,{}]\n", end_)) << ids.err;
}

TEST_F(Generate, StopsBeforeATextWhereverItsTokensBegin) {
  const nlohmann::json whole = object({"--seed", "3"});
  const std::vector<i32> tokens = whole["tokens"];
  // Printable bytes of two neighbours.
  std::string stop;
  for (std::size_t i = 2; i + 1 < tokens.size() && stop.empty(); ++i) {
    const auto plain = [](i32 id) { return id > 32 && id < 127; };
    if (plain(tokens[i]) && plain(tokens[i + 1])) {
      stop = {static_cast<char>(tokens[i]), static_cast<char>(tokens[i + 1])};
    }
  }
  if (stop.empty()) GTEST_SKIP() << "nothing printable was drawn";
  const std::string text = whole["text"];
  const nlohmann::json ended = object({"--seed", "3", "--stop", "no such text", "--stop", stop});
  EXPECT_EQ(ended["end"], "stop");
  EXPECT_EQ(ended["text"], text.substr(0, text.find(stop)));
  EXPECT_LT(ended["tokens"].size(), tokens.size());
}

TEST_F(Generate, SamplesAsToldAndRefusesTheRest) {
  const nlohmann::json greedy = object({"--temperature", "0"});
  EXPECT_EQ(object({"--top-k", "1", "--seed", "8"}), greedy);
  EXPECT_EQ(object({"--top-p", "1e-12", "--seed", "9"}), greedy);
  EXPECT_EQ(object({"--min-p", "1", "--seed", "9"}), greedy);
  EXPECT_NE(object({"--temperature", "0", "--repetition-penalty", "1000"}), greedy);
  EXPECT_EQ(object({"--top-k", "16777216", "--top-p", "1", "--min-p", "0"}), object({}));
  for (const auto& [flag, value, bounds] : std::vector<std::array<std::string, 3>>{
           {"--top-p", "0", "above 0 and at most 1"},
           {"--top-p", "nan", "above 0 and at most 1"},
           {"--top-p", "-1", "above 0 and at most 1"},
           {"--top-k", "0", "at least 1 and at most 16777216"},
           {"--top-k", "-1", "at least 1 and at most 16777216"},
           {"--min-p", "2", "at least 0 and at most 1"},
           {"--repetition-penalty", "0", "at least 0.001 and at most 1000"},
           {"--repetition-penalty", "inf", "at least 0.001 and at most 1000"}}) {
    const ProcessResult refused = run({flag, value});
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.err, HasSubstr(fmt::format("{} {}: {}", flag, value, bounds)));
  }
  EXPECT_THAT(run({"--temperature", "0", "--top-k", "5"}),
              Exits(2, "--top-k 5: no effect with --temperature 0, which takes the most likely"));
  EXPECT_THAT(run({"--stop", ""}), Exits(2, "--stop \"\": at least one character"));
  EXPECT_EQ(run({"--json", "--ids"}).exit_code, 2);
  EXPECT_EQ(run({"--json", "--logits"}).exit_code, 2);
  // What draws tokens says nothing of those that are only shown.
  for (const char* shows : {"--ids", "--logits"}) {
    EXPECT_THAT(run({shows}), Exits(2, fmt::format("--tokens excludes {}", shows)));
  }
  EXPECT_THAT(run({"--set", "device.type=\"none\""}), Exits(2, "--set #1"));
}

// Lines of text, without their ends.
std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> found;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) found.push_back(line);
  return found;
}

TEST_F(Generate, SeveralPromptsComeInTheOrderOfTheirFile) {
  const std::vector<std::string> prompts = {"the", "a longer one", "x", "and so", "thth"};
  run_.folder.write("prompts.txt", fmt::format("{}\n", fmt::join(prompts, "\n")));
  const ProcessResult made = run_file("prompts.txt", {"--seed", "3", "--batch", "2", "--json"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const std::vector<std::string> objects = lines(made.out);
  ASSERT_EQ(objects.size(), prompts.size());
  for (std::size_t i = 0; i < objects.size(); ++i) {
    EXPECT_EQ(nlohmann::json::parse(objects[i])["prompt"], prompts[i]);
  }
  EXPECT_EQ(nlohmann::json::parse(objects[0]), object({"--seed", "3"})) << "the first of a call";
  for (const std::string batch : {"1", "8", "4096"}) {
    EXPECT_EQ(run_file("prompts.txt", {"--seed", "3", "--batch", batch, "--json"}).out, made.out);
  }
  // For people: each prompt with what follows it.
  std::string texts;
  for (const std::string& line : objects) {
    const auto text = nlohmann::json::parse(line);
    texts += text["prompt"].get<std::string>() + text["text"].get<std::string>() + "\n";
  }
  const ProcessResult plain = run_file("prompts.txt", {"--seed", "3", "--batch", "3"});
  EXPECT_EQ(nlohmann::json(plain.out).dump(-1, ' ', false, replaced),
            nlohmann::json(texts).dump(-1, ' ', false, replaced));
}

TEST_F(Generate, IdsAndLogitsOfSeveralPromptsAreAnArrayALine) {
  run_.folder.write("prompts.jsonl",
                    R"({"prompt": "the\nx"})"
                    "\r\n"
                    R"({"prompt": "a"})");
  EXPECT_EQ(only("prompts.jsonl", {"--ids"}).out, "[256,101,10,120]\n[97]\n");
  const std::vector<std::string> both =
      lines(only("prompts.jsonl", {"--logits", "--batch", "1"}).out);
  ASSERT_EQ(both.size(), 2U);
  const auto logits = [&](const std::string& prompt) {
    const ProcessResult one =
        run_tessera({"generate", "--checkpoint", run_.at("run"), "--prompt", prompt, "--logits"});
    return lines(one.out).at(0);
  };
  EXPECT_EQ(both[0], logits("the\nx"));
  EXPECT_EQ(both[1], logits("a"));
  EXPECT_EQ(lines(only("prompts.jsonl", {"--logits"}).out).size(), 2U);
}

TEST_F(Generate, WhatIsWrongWithAFileOfPromptsIsNamed) {
  const auto expect =
      [&](const std::string& name, const std::string& text, const std::string& error) {
        run_.folder.write(name, text);
        const ProcessResult refused = run_file(name, {});
        EXPECT_EQ(refused.exit_code, 2) << text;
        EXPECT_THAT(refused.err, HasSubstr(error));
        EXPECT_EQ(refused.out, "");
      };
  expect("p.txt", "", "p.txt is empty: one prompt a line");
  expect("p.txt", "a\n\nb\n", "p.txt: line 2 is empty: give the model a text to continue");
  expect("p.txt", "a\nb\xff\n", "p.txt: line 2 is no UTF-8 at byte 2");
  expect("p.txt", "\xEF\xBB\xBF\na", "p.txt begins with a byte order mark: save it without");
  expect("p.jsonl", "\n", "p.jsonl: line 1 is empty: give the model a text to continue");
  expect("p.jsonl", R"({"prompt": ""})", "p.jsonl: line 1 is empty");
  expect("p.jsonl", R"({"text": "a"})", R"(p.jsonl: line 1 has "text"; only "prompt" is known)");
  expect("p.jsonl", "{}", R"(p.jsonl: line 1 has no "prompt")");
  expect("p.jsonl",
         R"({"prompt": ["a"]})",
         R"(p.jsonl: line 1: "prompt" is a JSON array instead of a string)");
  expect("p.jsonl", "[]", "p.jsonl: line 1 is damaged: it is a JSON array instead of an object");
  expect("p.jsonl", R"({"prompt": "a")", "p.jsonl: line 1 is damaged: ");
  EXPECT_THAT(run_file("none.txt", {}).err, HasSubstr("--prompts: cannot read"));
  EXPECT_THAT(run_file("words", {}).err, HasSubstr("is no regular file"));
  run_.folder.write("p.txt", "a\n");
  EXPECT_EQ(run_file("p.txt", {"--prompt", "a"}).exit_code, 2);
  EXPECT_EQ(run_file("p.txt", {"--batch", "0"}).exit_code, 2);
  EXPECT_EQ(run_file("p.txt", {"--batch", "4097"}).exit_code, 2);
  EXPECT_THAT(run({"--batch", "2"}).err, HasSubstr("--batch requires --prompts"));
}

TEST_F(Generate, AModelThatNeedsWholeSequencesSaysSoOnce) {
  const std::string whole = "model.block.attention.causal=false";
  ASSERT_EQ(run_.train(TinyRun::steps(1, "whole", {whole})).exit_code, 0);
  run_.folder.write("p.txt", "a\nb\n");
  const ProcessResult made = run_tessera({"generate",
                                          "--checkpoint",
                                          run_.at("whole"),
                                          "--prompts",
                                          run_.at("p.txt"),
                                          "--tokens",
                                          "3"});
  EXPECT_EQ(made.exit_code, 0) << made.err;
  const std::string note = "a layer of this model needs whole sequences, so each token runs all";
  const std::size_t at = made.err.find(note);
  EXPECT_NE(at, std::string::npos);
  EXPECT_EQ(made.err.find(note, at + 1), std::string::npos);
  EXPECT_THAT(run({}).err, ::testing::Not(HasSubstr(note)));
}

}  // namespace generate_test
}  // namespace tessera

// A trained model of any layout continues texts on one rank.
#include "kernel/train/run/generator.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "invariant_support.hpp"
#include "kernel/checkpoint/folders.hpp"
#include "kernel/checkpoint/index.hpp"
#include "trainer_support.hpp"
#include "training_support.hpp"

namespace tessera::testing {
namespace generator_test {

class Generation : public ::testing::Test {
 protected:
  // A vocabulary of 256 that two ranks store as 288.
  void SetUp() override {
    run_trainer({tiny_config(),
                 {"run.steps=5",
                  "lr.warmup_steps=2",
                  "model.vocab_multiple=24",
                  "checkpoint.every_steps=5",
                  "parallel.tensor=2",
                  "run.out=" + folder_.at("run")}});
    step_ = find_checkpoints(folder_.at("run"))[0];
    // As generation reads it, but for text that is gone.
    config_ = resolve(Config::parse(read_index(step_).info.config,
                                    "index.json",
                                    {"parallel.tensor=1",
                                     "batch.global=1",
                                     "batch.micro=1",
                                     "data.path=" + folder_.at("gone.txt")}),
                      plugins());
  }
  const TestFolder folder_;
  std::string step_;
  Resolved config_;
};

TEST_F(Generation, PaddingIsNeverSampled) {
  Generator generator(config_, plugins(), step_, 1);
  const std::vector<i32> prompt = generator.tokenizer().encode("the ");
  std::set<i32> drawn;
  for (u64 seed = 0; seed < 1500; ++seed) {
    drawn.insert(generator.sampler().next(prompt, {.temperature = 1e6, .seed = seed}));
  }
  EXPECT_GT(drawn.size(), 200U);  // nearly uniform over what there is
  EXPECT_LT(*drawn.rbegin(), 256);
}

// A tokenizer of bytes knows 256 of a vocabulary of 300.
TEST_F(Generation, WhatTheTokenizerDoesNotKnowIsNeverSampled) {
  const std::string out = folder_.at("wide");
  run_trainer({tiny_config(),
               {"run.steps=1",
                "lr.warmup_steps=0",
                "model.vocab=300",
                "checkpoint.every_steps=1",
                "run.out=" + out}});
  const std::string step = find_checkpoints(out)[0];
  const Resolved config =
      resolve(Config::parse(
                  read_index(step).info.config, "index.json", {"batch.global=1", "batch.micro=1"}),
              plugins());
  Generator generator(config, plugins(), step, 1);
  std::vector<i32> tokens = generator.tokenizer().encode("the ");
  for (u64 seed = 0; seed < 200; ++seed) {
    EXPECT_LT(generator.sampler().next(tokens, {.temperature = 1e6, .seed = seed}), 256);
  }
}

// Main parameters in FP32 are what a checkpoint has: text may be made in another compute.
TEST_F(Generation, InSixteenBits) {
  const std::vector<i32> prompt =
      Generator(config_, plugins(), step_, 1).tokenizer().encode("the ");
  const i32 wide =
      Generator(config_, plugins(), step_, 1).sampler().next(prompt, {.temperature = 0});
  for (const std::string compute : {"bf16", "fp16"}) {
    const Resolved narrow = resolve(Config::parse(read_index(step_).info.config,
                                                  "index.json",
                                                  {"parallel.tensor=1",
                                                   "batch.global=1",
                                                   "batch.micro=1",
                                                   "precision.compute=" + compute}),
                                    plugins());
    EXPECT_EQ(Generator(narrow, plugins(), step_, 1).sampler().next(prompt, {.temperature = 0}),
              wide)
        << compute;
  }
}

// Token by token, each run over one row, and over sequences of more than sequence_length tokens,
// whose window moves on.
TEST_F(Generation, AGrowingTextGivesTheLogitsOfAWholeOne) {
  Generator growing(config_, plugins(), step_, 1);
  const std::vector<i32> text = growing.tokenizer().encode("the king and the queen");
  for (std::size_t length = 3; length <= text.size(); ++length) {
    const std::vector<i32> tokens(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(length));
    const std::vector<float> whole =
        Generator(config_, plugins(), step_, 1).sampler().logits(tokens);
    EXPECT_THAT(growing.sampler().logits(tokens),
                ::testing::Pointwise(::testing::FloatNear(1e-5F), whole))
        << length;
  }
}

// Three texts of unequal lengths grow together: prompts come alone, then each brings one token, and
// a window moves while others grow. One of them ends, and the last one takes its place.
TEST_F(Generation, TextsThatGrowTogetherAreWhatTheyAreAlone) {
  Generator together(config_, plugins(), step_, 1, 3);
  const std::vector<std::string> texts = {"the king and", "a", "to be or not to"};
  std::vector<std::vector<i32>> tokens;
  for (const std::string& text : texts) tokens.push_back(together.tokenizer().encode(text));
  const auto expect_same = [&] {
    const auto found = together.sampler().logits(tokens);
    ASSERT_EQ(found.size(), tokens.size());
    for (std::size_t place = 0; place < tokens.size(); ++place) {
      EXPECT_THAT(found[place],
                  ::testing::Pointwise(
                      ::testing::FloatNear(1e-5F),
                      Generator(config_, plugins(), step_, 1).sampler().logits(tokens[place])))
          << "place " << place << " of " << tokens.size();
    }
  };
  for (i32 round = 0; round < 9; ++round) {
    expect_same();
    for (std::size_t place = 0; place < tokens.size(); ++place) {
      tokens[place].push_back(100 + round + static_cast<i32>(place));
    }
  }
  together.sampler().move(2, 0);
  tokens[0] = tokens[2];
  tokens.pop_back();
  for (i32 round = 0; round < 4; ++round) {
    expect_same();
    for (std::vector<i32>& text : tokens) text.push_back(97 + round);
  }
}

// A text of three tokens, padded to eight positions, gives what the model says of them where its
// sequences are no longer than that, or where nothing is dropped.
TEST_F(Generation, PaddingChangesNothing) {
  struct Case {
    std::string name;
    Sets model, without_padding;
  };
  const Sets experts = {"model.block.mlp.type=\"moe\"",
                        "model.block.mlp.experts=4",
                        "model.block.mlp.ffn=8",
                        "model.block.mlp.init_std=0.5"};
  const Sets shorter = {"batch.sequence_length=3"};
  const std::vector<Case> cases = {
      {"capacity",
       with(experts, {"model.block.mlp.capacity_factor=0.75"}),
       {"model.block.mlp.capacity_factor=\"none\""}},
      {"expert_choice", with(experts, {"model.block.mlp.router.type=\"expert_choice\""}), shorter},
      {"not_causal", {"model.block.attention.causal=false"}, shorter}};
  for (const Case& of : cases) {
    SCOPED_TRACE(of.name);
    const std::string out = folder_.at(of.name);
    run_trainer({tiny_config(),
                 with(of.model,
                      {"run.steps=3",
                       "lr.warmup_steps=1",
                       "model.positions=8",
                       "checkpoint.every_steps=3",
                       "run.out=" + out})});
    const std::string step = find_checkpoints(out)[0];
    const auto logits = [&](const Sets& sets) {
      const Resolved config =
          resolve(Config::parse(read_index(step).info.config,
                                "index.json",
                                with({"batch.global=1", "batch.micro=1"}, sets)),
                  plugins());
      return Generator(config, plugins(), step, 1).sampler().logits({116, 104, 101});
    };
    EXPECT_THAT(logits({}),
                ::testing::Pointwise(::testing::FloatNear(1e-5F), logits(of.without_padding)));
  }
}

TEST_F(Generation, AnotherTextIsNotTakenForTheSameOneGoingOn) {
  Generator generator(config_, plugins(), step_, 1);
  const std::vector<i32> first = {116, 104, 101, 32}, other = {116, 104, 97, 116, 32};
  const std::vector<float> expected =
      Generator(config_, plugins(), step_, 1).sampler().logits(other);
  generator.sampler().logits(first);
  EXPECT_EQ(generator.sampler().logits(other), expected);
  EXPECT_EQ(generator.sampler().logits(other), expected);
}

TEST_F(Generation, SeesTheLastTokensOnly) {
  Generator generator(config_, plugins(), step_, 1);
  const i64 length = 8;
  std::vector<i32> tokens = generator.tokenizer().encode("the king and the queen of the night");
  std::vector<i32> changed = tokens;
  changed[tokens.size() - length - 1] ^= 1;  // just out of sight
  for (u64 seed = 0; seed < 20; ++seed) {
    const Sampling sampling{.temperature = 1, .seed = seed};
    EXPECT_EQ(generator.sampler().next(tokens, sampling),
              generator.sampler().next(changed, sampling));
  }
}

// What the ranks of a run say of a text after five steps.
std::vector<float> trained_logits(const Sets& sets, const std::vector<i32>& tokens) {
  std::vector<float> logits;
  on_ranks(
      tiny_config(), with({"run.steps=5", "lr.warmup_steps=2"}, sets), [&](RankRun& run, Store*) {
        for (int step = 0; step < 5; ++step) {
          run.step().run();
          run.step().losses();
        }
        logits = run.evaluation().logits(tokens);
      });
  return logits;
}

TEST_F(Generation, TheModelIsTheTrainedOne) {
  const std::vector<i32> tokens = {116, 104, 101, 32};
  const std::vector<float> trained = trained_logits({"model.vocab_multiple=24"}, tokens);
  Generator generator(config_, plugins(), step_, 1);
  const i32 best =
      static_cast<i32>(std::max_element(trained.begin(), trained.end()) - trained.begin());
  EXPECT_EQ(trained.size(), 256U);
  EXPECT_EQ(generator.sampler().next(tokens, {.temperature = 0}), best);
  EXPECT_THAT(generator.sampler().logits(tokens),
              ::testing::Pointwise(::testing::FloatNear(1e-5F), trained));
}

// A model that is trained and saved says what it said in training, from a cache that grows, alone
// and with another text.
void expect_the_trained_one(const Sets& model, const std::string& out) {
  run_trainer(
      {tiny_config(),
       with(model,
            {"run.steps=5", "lr.warmup_steps=2", "checkpoint.every_steps=5", "run.out=" + out})});
  const std::string step = find_checkpoints(out)[0];
  const Resolved config =
      resolve(Config::parse(
                  read_index(step).info.config, "index.json", {"batch.global=1", "batch.micro=1"}),
              plugins());
  Generator growing(config, plugins(), step, 1), together(config, plugins(), step, 1, 2);
  std::vector<std::vector<i32>> pair = {{97, 98, 99, 100, 101}, {}};
  for (const std::vector<i32>& text :
       {std::vector<i32>{116, 104, 101}, {116, 104, 101, 32}, {116, 104, 101, 32, 113, 117}}) {
    const std::vector<float> trained = trained_logits(model, text);
    const auto equals = ::testing::Pointwise(::testing::FloatNear(1e-5F), trained);
    EXPECT_THAT(growing.sampler().logits(text), equals);
    pair[1] = text;
    EXPECT_THAT(together.sampler().logits(pair).at(1), equals);
    pair[0].push_back(102);
  }
}

const Sets kNewer = {"model.embedding.learned_positions=false",
                     "model.block.norm.type=\"rmsnorm\"",
                     "model.block.mlp.type=\"gated_mlp\""};

// Angles of rotary positions are no parameters: they are made anew, and earlier rows stay turned.
TEST_F(Generation, ADecoderWithRotaryPositionsIsTheTrainedOne) {
  expect_the_trained_one(with(kNewer,
                              {"model.block.attention.rotary.type=\"default\"",
                               "model.block.attention.kv_heads=2",
                               "model.block.attention.init_std=0.5",
                               "model.block.attention.window=3"}),
                         folder_.at("decoder"));
}

// The cache has latents, of which keys and values are made again.
TEST_F(Generation, ADecoderWithLatentAttentionIsTheTrainedOne) {
  expect_the_trained_one(with(kNewer,
                              {"model.block.attention.type=\"latent_attention\"",
                               "model.block.attention.kv_latent=8",
                               "model.block.attention.fixed_size=6",
                               "model.block.attention.rotary_size=4",
                               "model.block.attention.value_size=5",
                               "model.block.attention.init_std=0.5"}),
                         folder_.at("decoder"));
}

}  // namespace generator_test
}  // namespace tessera::testing

// What is drawn for a text does not depend on the texts that grow with it, on places, on a cache or
// on ranks.
#include "kernel/train/run/text_batch.hpp"

#include <gmock/gmock.h>

#include <set>

#include "mutants_support.hpp"
#include "tessera/error.hpp"
#include "text_models_support.hpp"

namespace tessera::testing {
namespace text_batch_test {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;

// Unequal; the longest is longer than a sequence, and there are more than eight.
std::vector<std::string> prompts() {
  return {"the king",
          "a",
          "to be or not to be",
          "of",
          "night",
          "x",
          "and the queen of",
          "hm, ",
          "so it was",
          "zz",
          "th",
          "ninety"};
}

constexpr Sampling kDrawn = {.temperature = 1, .seed = 5};

std::vector<GrowingText> texts_of(const RunSetup& setup, const std::vector<std::string>& prompts) {
  const Tokenizer& tokenizer = *setup.tokenizer;
  std::vector<GrowingText> texts;
  for (const std::string& prompt : prompts) {
    // Of 256 tokens, some end a text and some of the others stop it.
    texts.emplace_back(
        tokenizer,
        tokenizer.encode(prompt),
        TextLimits{14, {3, 40, 77, 111, 180, 222}, {"b", "K", "q", "7", "W", "z", "%"}});
  }
  return texts;
}

using Tokens = std::vector<std::vector<i32>>;

Tokens tokens_of(const std::vector<GrowingText>& texts) {
  Tokens all;
  for (const GrowingText& text : texts) all.push_back(text.tokens());
  return all;
}

Tokens together(RankRun& run, i64 places, const std::vector<std::string>& prompts) {
  std::vector<GrowingText> texts = texts_of(run.setup(), prompts);
  std::vector<std::size_t> grown(texts.size()), over;
  TextSampler sampler(run.evaluation(), run.setup(), places);
  grow_together(sampler,
                places,
                texts,
                kDrawn,
                {.grown = [&](std::size_t text) { ++grown[text]; },
                 .over = [&](std::size_t text) { over.push_back(text); }});
  EXPECT_THAT(std::set(over.begin(), over.end()), SizeIs(texts.size())) << "each ends once";
  EXPECT_THAT(over, SizeIs(texts.size()));
  for (std::size_t text = 0; text < texts.size(); ++text) {
    EXPECT_EQ(grown[text] + 1, texts[text].added().size()) << "a token that nobody was told of";
  }
  return tokens_of(texts);
}

// Each text by itself, without a cache: whole sequences, however long, where they fit.
Tokens alone(RankRun& run, const std::vector<std::string>& prompts) {
  std::vector<GrowingText> texts = texts_of(run.setup(), prompts);
  const TextSampler chooser(run.evaluation(), run.setup());
  const auto length = static_cast<std::size_t>(run.setup().batch.sequence), half = length / 2;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    while (!texts[i].over()) {
      const std::vector<i32>& tokens = texts[i].tokens();
      std::size_t first = 0;
      while (tokens.size() - first > length) first += half;
      texts[i].add(chooser.choose(run.evaluation().logits(std::span(tokens).subspan(first)),
                                  tokens,
                                  kDrawn,
                                  static_cast<i64>(i)));
    }
  }
  return tokens_of(texts);
}

void expect_equal(const Sets& model) {
  Tokens expected;
  on_exact_ranks(plugins(), model, [&](RankRun& run) {
    expected = alone(run, prompts());
    EXPECT_TRUE(TextSampler(run.evaluation(), run.setup()).cached());
    for (const i64 places : {1, 2, 8, 20}) EXPECT_EQ(together(run, places, prompts()), expected);
    std::vector<GrowingText> texts = texts_of(run.setup(), prompts());
    std::set<TextEnd> ends;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      for (std::size_t at = texts[i].tokens().size(); at < expected[i].size(); ++at) {
        texts[i].add(expected[i][at]);
      }
      ends.insert(texts[i].end());
    }
    EXPECT_EQ(ends, (std::set{TextEnd::eos, TextEnd::stop, TextEnd::length}));
  });
  on_exact_ranks(plugins(), with(model, {"parallel.tensor=2"}), [&](RankRun& run) {
    EXPECT_EQ(together(run, 8, prompts()), expected) << "rank " << run.rank().mesh->rank();
  });
}

TEST(TextBatch, EachTextIsWhatItIsAloneWithoutACache) { expect_equal({}); }
TEST(TextBatch, TextsOfADecoderToo) { expect_equal(kDecoder); }
TEST(TextBatch, TextsOfLatentAttentionToo) { expect_equal(kLatent); }
// Over two ranks of a tensor group it keeps no rows.
TEST(TextBatch, TextsOfExpertsToo) { expect_equal(kExperts); }

// Such a model is run over whole sequences.
TEST(TextBatch, AModelThatNeedsWholeSequencesGivesTheSameTextsInABatch) {
  on_exact_ranks(plugins(), {"model.block.attention.causal=false"}, [&](RankRun& run) {
    EXPECT_FALSE(TextSampler(run.evaluation(), run.setup()).cached());
    EXPECT_EQ(together(run, 8, prompts()), alone(run, prompts()));
  });
}

TEST(TextBatch, TheNumberOfATextChangesWhatIsDrawn) {
  on_exact_ranks(plugins(), {}, [&](RankRun& run) {
    const Tokens texts = together(run, 3, {"same", "same", "same"});
    EXPECT_NE(texts[0], texts[1]);
    EXPECT_NE(texts[1], texts[2]);
  });
}

// With the mistake, texts in several places are not what they are alone; without, they are.
void expect_found(const Sets& component, const std::string& mistake) {
  const std::vector<std::string> few = {"the ", "a", "night"};
  const Sets longer = {"batch.sequence_length=24"};  // no window moves
  Tokens expected;
  const auto run_with = [&](const Sets& sets) {
    Tokens found;
    on_exact_ranks(mutants(), with(with(longer, component), sets), [&](RankRun& run) {
      expected = alone(run, few);
      found = together(run, 3, few);
    });
    return found;
  };
  EXPECT_EQ(run_with({}), expected);
  EXPECT_NE(run_with({mistake}), expected);
}

TEST(TextMutation, KeptRowsCountedFromOne) {
  const Sets kEmbedding = {"model.embedding.type=\"mutant_embedding\""};
  const std::string mistake = "model.embedding.mistake=\"kept_rows_counted_from_one\"";
  expect_found(kEmbedding, mistake);
  expect_found(with(kEmbedding,
                    {"model.embedding.inner.learned_positions=false",
                     "model.block.attention.rotary.type=\"default\""}),
               mistake);
}

TEST(TextMutation, CacheSlotOfAnotherSequence) {
  expect_found({"model.block.attention.type=\"mutant_caching_layer\""},
               "model.block.attention.mistake=\"slot_of_another_sequence\"");
}

// The loop of grow_together, which may forget that a text is over.
void grow(TextSampler& sampler, std::vector<GrowingText>& texts, bool still_drawn) {
  while (true) {
    std::vector<std::size_t> growing;
    Tokens sequences;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (texts[i].over() && !still_drawn) continue;
      growing.push_back(i);
      sequences.push_back(texts[i].tokens());
    }
    if (growing.empty()) return;
    const auto logits = sampler.logits(sequences);
    for (std::size_t place = 0; place < growing.size(); ++place) {
      texts[growing[place]].add(sampler.choose(
          logits[place], sequences[place], kDrawn, static_cast<i64>(growing[place])));
    }
  }
}

TEST(TextMutation, AFinishedTextStillDrawn) {
  on_exact_ranks(plugins(), {}, [&](RankRun& run) {
    const auto places = static_cast<i64>(prompts().size());
    TextSampler sampler(run.evaluation(), run.setup(), places);
    std::vector<GrowingText> right = texts_of(run.setup(), prompts()), wrong = right;
    grow(sampler, right, false);
    EXPECT_EQ(tokens_of(right), together(run, places, prompts()));
    EXPECT_THAT([&] { grow(sampler, wrong, true); },
                ThrowsMessage<Error>(HasSubstr("a token of a text that is over")));
  });
}

}  // namespace text_batch_test
}  // namespace tessera::testing

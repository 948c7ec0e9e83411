// Texts that begin alike share what their first rows are computed from, and have the scores that
// each of them has alone.
#include "kernel/train/run/shared_prefixes.hpp"

#include <gtest/gtest.h>

#include "kernel/train/run/model_scorer.hpp"
#include "mutants_support.hpp"
#include "text_models_support.hpp"

namespace tessera::testing {
namespace shared_prefixes_test {

const Sets kLonger = {"batch.sequence_length=24"};

ScoredText text_of(const std::string& context, const std::string& rest) {
  ScoredText text{.first = static_cast<i64>(context.size())};
  for (const char c : context + rest) text.tokens.push_back(static_cast<u8>(c));
  return text;
}

// Two questions, whose contexts differ in the first and the last tokens; a choice of one token, the
// beginning of another choice, one as long as the model allows; between them a text for itself.
std::vector<ScoredText> texts() {
  return {text_of("the king said", " a"),
          text_of("the king said", " all of it"),
          text_of("the king said", "!"),
          text_of("other", " text"),
          text_of("a queen said", " so"),
          text_of("a queen said", " so it is"),
          text_of("a queen saw", " so long a da")};
}

using Scores = std::vector<std::vector<TokenScore>>;

double farthest(const Scores& a, const Scores& b) {
  double far = 0;
  EXPECT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].size(), b[i].size()) << i;
    for (std::size_t k = 0; k < std::min(a[i].size(), b[i].size()); ++k) {
      far = std::max(far, std::abs(a[i][k].log_probability - b[i][k].log_probability));
      if (a[i][k].largest != b[i][k].largest) far = std::max(far, 1.0);
    }
  }
  return far;
}

Scores alone(RankRun& run) {
  ModelScorer scorer(run.model());
  Scores scores;
  for (const ScoredText& text : texts()) scores.push_back(scorer.score({text}).at(0));
  return scores;
}

TEST(SharedPrefixes, AreWhatNeighboursBeginWithAndNoneScores) {
  const auto groups = prefix_groups(texts());
  ASSERT_EQ(groups.size(), 4U);
  EXPECT_EQ(groups[0].texts, 3U);
  EXPECT_EQ(groups[0].rows, 12) << "the last token of the context says the first choice's";
  EXPECT_EQ(groups[1].texts, 1U);
  EXPECT_EQ(groups[1].rows, 0);
  EXPECT_EQ(groups[2].first, 4U);
  EXPECT_EQ(groups[2].texts, 2U) << "the third would leave less than half shared";
  EXPECT_EQ(groups[2].rows, 11);
  // Scored tokens are not shared, nor are windows that begin elsewhere.
  EXPECT_EQ(prefix_groups({text_of("a", "bcdef"), text_of("a", "bcdef")}).size(), 2U);
  EXPECT_EQ(prefix_groups({text_of("abcd", "e"), text_of("bcde", "f")}).size(), 2U);
  EXPECT_EQ(prefix_groups({text_of("abc", ""), text_of("abc", "")}).size(), 2U);
}

void expect_equal(const Sets& model, const std::vector<Sets>& layouts) {
  Scores expected;
  const Sets longer = with(kLonger, model);
  on_exact_ranks(plugins(), longer, [&](RankRun& run) {
    expected = alone(run);
    EXPECT_NE(run.evaluation().make_cache(2), nullptr);
    ModelScorer scorer(run.model());
    EXPECT_LT(farthest(scorer.score(texts()), expected), 1e-12);
    EXPECT_LT(farthest(scorer.score(texts()), expected), 1e-12) << "again";
  });
  for (const Sets& layout : layouts) {
    on_exact_ranks(plugins(), with(longer, layout), [&](RankRun& run) {
      EXPECT_LT(farthest(ModelScorer(run.model()).score(texts()), expected), 1e-12)
          << layout.at(0) << " rank " << run.mesh().rank();
    });
  }
}

const std::vector<Sets> kLayouts = {{"parallel.tensor=2"},
                                    {"parallel.tensor=2", "parallel.sequence_parallel=true"},
                                    {"parallel.data=2"},
                                    {"parallel.context=2"},
                                    {"parallel.pipeline=2"}};

TEST(SharedPrefixes, GiveTheScoresOfEachTextAlone) { expect_equal({}, kLayouts); }
TEST(SharedPrefixes, OfADecoderToo) { expect_equal(kDecoder, kLayouts); }
TEST(SharedPrefixes, OfLatentAttentionToo) { expect_equal(kLatent, {{"parallel.tensor=2"}}); }
TEST(SharedPrefixes, OfExpertsToo) { expect_equal(kExperts, {{"parallel.tensor=2"}}); }

// A model that needs whole sequences has them.
TEST(SharedPrefixes, AreNotKeptWhereRowsSeeLaterOnes) {
  on_exact_ranks(
      plugins(), with(kLonger, {"model.block.attention.causal=false"}), [&](RankRun& run) {
        EXPECT_LT(farthest(ModelScorer(run.model()).score(texts()), alone(run)), 1e-12);
      });
}

// What was trained since is what scores.
TEST(SharedPrefixes, AreForgottenBetweenCalls) {
  on_exact_ranks(plugins(), kLonger, [&](RankRun& run) {
    ModelScorer scorer(run.model());
    const Scores before = scorer.score(texts());
    run.step().run();
    run.step().losses();
    const Scores after = scorer.score(texts());
    EXPECT_GT(farthest(after, before), 1e-6);
    EXPECT_LT(farthest(after, alone(run)), 1e-12);
  });
}

// With the mistake, which only rows after kept ones make, scores are not those of texts alone.
void expect_found(const Sets& component, const std::string& mistake) {
  const auto far_with = [&](const Sets& sets) {
    double far = 0;
    on_exact_ranks(mutants(), with(with(kLonger, component), sets), [&](RankRun& run) {
      far = farthest(ModelScorer(run.model()).score(texts()), alone(run));
    });
    return far;
  };
  EXPECT_LT(far_with({}), 1e-12);
  EXPECT_GT(far_with({mistake}), 1e-3);
}

TEST(SharedPrefixesMutation, KeptRowsCountedFromOne) {
  const Sets kEmbedding = {"model.embedding.type=\"mutant_embedding\""};
  const std::string mistake = "model.embedding.mistake=\"kept_rows_counted_from_one\"";
  expect_found(kEmbedding, mistake);
  expect_found(with(kEmbedding,
                    {"model.embedding.inner.learned_positions=false",
                     "model.block.attention.rotary.type=\"default\""}),
               mistake);
}

TEST(SharedPrefixesMutation, PrefixOfAnotherQuestion) {
  expect_found({"model.block.attention.type=\"mutant_caching_layer\""},
               "model.block.attention.mistake=\"slot_of_another_sequence\"");
}

}  // namespace shared_prefixes_test
}  // namespace tessera::testing

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tessera/document_stage.hpp"
#include "tessera/io/words.hpp"
#include "tessera/parallel_for.hpp"
#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera {
namespace document_stages_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::shared_ptr<DocumentStage> stage(std::string_view type,
                                     const std::string& keys = "",
                                     const std::vector<std::string>& evaluation = {}) {
  DocumentStageArguments arguments{
      [&](const std::string&, const std::function<void(std::string_view)>& use) {
        for (const std::string& text : evaluation) use(text);
      }};
  return make_plugin<DocumentStage>(type, keys, arguments);
}

std::string cleaned(const std::string& text) {
  const StageResult result = stage("clean")->apply({"id", text, 1});
  EXPECT_EQ(result.removed, "");
  return result.texts.empty() ? "as it was" : result.texts.at(0);
}

TEST(DocumentStages, Clean) {
  EXPECT_EQ(cleaned("plain \ttext\nof lines"), "as it was");
  EXPECT_EQ(cleaned("\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80"), "as it was");
  EXPECT_EQ(cleaned("a\r\nb\rc\r\r\nd\xC2\x85"
                    "e\xE2\x80\xA8"
                    "f"),
            "a\nb\nc\n\nd\ne\nf");
  EXPECT_EQ(cleaned(std::string("\0a\x01\x1B[0m\x7F\xC2\x9F\xEF\xBB\xBF", 13)), "a[0m");
  EXPECT_EQ(cleaned("caf\x65\xCC\x81"), "caf\xC3\xA9");  // NFC composes
  EXPECT_EQ(cleaned("\xE2\x84\xAB"), "\xC3\x85");        // the sign of an Angstrom
  EXPECT_EQ(cleaned("\xEF\xAC\x81"), "as it was");       // a ligature is no matter of NFC
  EXPECT_EQ(cleaned("a\xFF\xC3z\xED\xA0\x80"),
            "a\xEF\xBF\xBD\xEF\xBF\xBDz\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_TRUE(stage("clean")->mends_text());
}

TEST(DocumentStages, Length) {
  EXPECT_EQ(stage("length")->apply({"id", "", 127}).removed, "127 tokens, fewer than 128");
  EXPECT_EQ(stage("length")->apply({"id", "", 128}).removed, "");
  EXPECT_EQ(stage("length", "tokens = 2")->apply({"id", "", 1}).removed, "1 tokens, fewer than 2");
}

// --- words and overlap ---

TEST(DocumentStages, Words) {
  const std::string text = "\xE2\x80\x9CHello,\xE2\x80\x9D don't_x \xC3\xA9t\xC3\xA9 \xE4\xB8\xAD.";
  std::vector<std::string> found;
  const std::vector<TextWord> words = words_of(text);
  for (const TextWord& word : words) {
    found.push_back(text.substr(static_cast<std::size_t>(word.begin),
                                static_cast<std::size_t>(word.end - word.begin)));
  }
  EXPECT_THAT(found, ElementsAre("Hello", "don", "t_x", "\xC3\xA9t\xC3\xA9", "\xE4\xB8\xAD"));
  const std::vector<TextWord> other = words_of("hello DON");
  EXPECT_EQ(hash_words(words, 0, 2), hash_words(other, 0, 2));
  EXPECT_NE(hash_words(words_of("don hello"), 0, 2), hash_words(other, 0, 2));
}

std::string numbered(int begin, int end, const std::string& separator = " ") {
  std::string text;
  for (int i = begin; i < end; ++i) text += "w" + std::to_string(i) + separator;
  return text;
}

TEST(DocumentStages, OverlapCutsMatchesWithTheirMargins) {
  const std::string evaluation = numbered(100, 113);
  const auto cut = stage("overlap", "files = \"x\"", {evaluation});
  const std::string before = numbered(1000, 1200), after = numbered(2000, 2200);
  // Twelve words in a row are no match.
  EXPECT_THAT(cut->apply({"id", before + numbered(100, 112) + after, 1}).texts, IsEmpty());
  // Thirteen are, whatever stands between them; 200 characters go on each side.
  const std::string match = numbered(100, 113, ", ");
  const StageResult result = cut->apply({"id", before + match + after, 1});
  ASSERT_EQ(result.texts.size(), 2U);
  EXPECT_EQ(result.texts[0], before.substr(0, before.size() - 200));
  // The match ends with its last word: ", " after it counts to the margin.
  EXPECT_EQ(result.texts[1], after.substr(200 - 2));
  EXPECT_EQ(result.removed, "");
  // Of pieces below 200 characters nothing stays.
  const StageResult all =
      cut->apply({"id", before.substr(0, 398) + " " + match + after.substr(0, 390), 1});
  EXPECT_EQ(all.removed, "13 words in a row of an evaluation");
  EXPECT_EQ(cut->apply({"id", before.substr(0, 399) + " " + match, 1}).texts.at(0),
            before.substr(0, 200));
}

TEST(DocumentStages, OverlapCountsCharactersAndNotBytes) {
  std::string wide;
  for (int i = 0; i < 300; ++i) wide += "\xC3\xA9";
  const auto cut = stage("overlap", "files = \"x\"\nwords = 2\nmargin = 60\nleast = 240", {"a b"});
  EXPECT_THAT(cut->apply({"id", wide + " a b", 1}).texts, ElementsAre(wide.substr(0, 241 * 2)));
  EXPECT_EQ(cut->apply({"id", wide.substr(4) + " a b", 1}).removed,
            "2 words in a row of an evaluation");
  EXPECT_THAT(text_of<ConfigError>([&] { stage("overlap", "files = \"x\"", {"too short"}); }),
              HasSubstr("files: no text in them has 13 words"));
  EXPECT_NE(cut->fingerprint(),
            stage("overlap", "files = \"x\"\nwords = 2", {"a c"})->fingerprint());
}

// --- near duplicates ---

class Texts final : public DocumentSet {
 public:
  Texts(std::vector<std::string> texts, const DocumentComparison& comparison)
      : texts_(std::move(texts)), bytes_(comparison.sketch_bytes()) {
    sketches_.resize(texts_.size() * static_cast<std::size_t>(bytes_));
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      comparison.sketch(texts_[i], std::span(sketches_).subspan(at(i), at(1)));
    }
  }
  i64 size() const override { return static_cast<i64>(texts_.size()); }
  std::span<const std::byte> sketch(i64 number) const override {
    return std::span(sketches_).subspan(at(static_cast<std::size_t>(number)), at(1));
  }
  std::string text(i64 number) const override { return texts_[static_cast<std::size_t>(number)]; }

 private:
  std::size_t at(std::size_t number) const { return number * static_cast<std::size_t>(bytes_); }
  std::vector<std::string> texts_;
  i64 bytes_;
  std::vector<std::byte> sketches_;
};

std::vector<DocumentRemoval> decided(const std::vector<std::string>& texts,
                                     const std::string& keys = "") {
  const auto comparison = stage("near_duplicates", keys)->comparison();
  const Texts set(texts, *comparison);
  return comparison->decide(set);
}

std::string random_text(std::mt19937_64& random, std::size_t size) {
  std::string text(size, ' ');
  for (char& c : text) c = static_cast<char>('!' + random() % 90);
  return text;
}

// J of sets of runs of five characters, as Python would say it.
double similarity(const std::string& a, const std::string& b) {
  const auto runs = [](const std::string& text) {
    std::set<std::string> out;
    for (std::size_t i = 0; i + 5 <= text.size(); ++i) out.insert(text.substr(i, 5));
    return out;
  };
  const auto left = runs(a), right = runs(b);
  std::vector<std::string> both;
  std::ranges::set_intersection(left, right, std::back_inserter(both));
  return static_cast<double>(both.size()) /
         static_cast<double>(left.size() + right.size() - both.size());
}

// Pairs with a common part of their texts: J = c / (2 - c) of sets that are all distinct.
TEST(DocumentStages, NearDuplicatesArePlantedAndFound) {
  std::mt19937_64 random(11);
  std::vector<std::string> texts;
  std::vector<double> planted;
  for (int i = 0; i < 1500; ++i) {
    const double wanted = 0.60 + 0.30 * i / 1500;
    const std::size_t size = 400,
                      common =
                          static_cast<std::size_t>(std::lround(size * 2 * wanted / (1 + wanted)));
    const std::string shared = random_text(random, common);
    texts.push_back(shared + random_text(random, size - common));
    texts.push_back(shared + random_text(random, size - common));
    planted.push_back(similarity(texts[texts.size() - 2], texts.back()));
  }
  std::vector<DocumentRemoval> found = decided(texts);
  i64 above = 0, above_found = 0;
  std::set<i64> removed;
  for (const DocumentRemoval& one : found) {
    EXPECT_EQ(one.number, one.twin + 1);
    const double own = planted[static_cast<std::size_t>(one.twin / 2)];
    EXPECT_DOUBLE_EQ(one.similarity, own);
    EXPECT_GT(own, 0.70);
    removed.insert(one.number);
  }
  for (std::size_t i = 0; i < planted.size(); ++i) {
    if (planted[i] < 0.72) continue;
    ++above;
    above_found += removed.contains(static_cast<i64>(2 * i + 1)) ? 1 : 0;
  }
  EXPECT_GT(above, 800);
  EXPECT_GE(static_cast<double>(above_found), 0.99 * static_cast<double>(above));
}

// The first of a group stays, though others of it are like it only by a third.
TEST(DocumentStages, NearDuplicatesGoByGroup) {
  std::mt19937_64 random(3);
  const std::string base = random_text(random, 1000);
  const auto shifted = [&](std::size_t by) { return base.substr(by) + random_text(random, by); };
  const std::string a = base, b = shifted(130), c = b.substr(130) + random_text(random, 130);
  ASSERT_GT(similarity(a, b), 0.7);
  ASSERT_GT(similarity(b, c), 0.7);
  ASSERT_LT(similarity(a, c), 0.7);
  const auto removed = [](const std::vector<DocumentRemoval>& removals) {
    std::vector<std::pair<i64, i64>> out;
    for (const auto& one : removals) out.emplace_back(one.number, one.twin);
    std::ranges::sort(out);
    return out;
  };
  using P = std::pair<i64, i64>;
  const std::string alone = random_text(random, 1000);
  EXPECT_THAT(removed(decided({a, alone, c, b})), ElementsAre(P(2, 3), P(3, 0)));
  EXPECT_THAT(removed(decided({alone, c, b, a})), ElementsAre(P(2, 1), P(3, 2)));
  EXPECT_THAT(removed(decided({a, alone, c, b}, "similarity = 0.9")), IsEmpty());
  // Short and empty texts are like equal ones only.
  EXPECT_THAT(removed(decided({"", "ab", "abc", "ab", "", "\xC3\xA9", "\xC3\xA9"})),
              ElementsAre(P(3, 1), P(4, 0), P(6, 5)));
}

// The same for any number of threads, also of many equal documents.
TEST(DocumentStages, NearDuplicatesOfManyThreads) {
  std::mt19937_64 random(5);
  std::vector<std::string> texts;
  const std::string often = random_text(random, 300);
  for (int i = 0; i < 6000; ++i) {
    if (i % 3 == 0) {
      texts.push_back(often + std::to_string(i));
    } else if (i % 3 == 1 || i < 20) {
      texts.push_back(random_text(random, 300));
    } else {
      std::string changed = texts[static_cast<std::size_t>(i) - 10];
      changed.replace(100, 20, random_text(random, 20));
      texts.push_back(changed);
    }
  }
  const auto one = decided(texts);
  const ParallelThreads within(4);
  const auto four = decided(texts);
  ASSERT_EQ(one.size(), four.size());
  EXPECT_GT(one.size(), 3500U);
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].number, four[i].number);
    EXPECT_EQ(one[i].twin, four[i].twin);
    EXPECT_EQ(one[i].similarity, four[i].similarity);
  }
}

}  // namespace document_stages_test
}  // namespace tessera

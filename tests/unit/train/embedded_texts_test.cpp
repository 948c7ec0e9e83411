// Texts that are embedded: as many to a sample as fit, apart from each other.
#include <gmock/gmock.h>

#include "common/error_of.hpp"
#include "kernel/train/data/embedded_texts.hpp"

namespace tessera {
namespace embedded_texts_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A token for each byte.
class Bytes final : public Tokenizer {
 public:
  explicit Bytes(bool roles = true) : roles_(roles) {}

 private:
  i64 do_vocabulary() const override { return 300; }
  std::string do_fingerprint() const override { return "bytes"; }
  std::vector<i32> do_encode(std::string_view text) const override {
    return {text.begin(), text.end()};
  }
  std::string do_decode(const std::vector<i32>&) const override { return {}; }
  SpecialIds do_special_ids() const override {
    SpecialIds ids;
    if (roles_) ids.cls = 256, ids.sep = 257, ids.pad = 258;
    return ids;
  }
  bool roles_;
};

struct Sample {
  std::vector<i64> tokens, segments, positions;
  std::vector<i32> first, last;
  Sample(const EmbeddedTexts& texts, i64 ordinal, std::size_t length)
      : tokens(length), segments(length), positions(length), first(length), last(length) {
    texts.read(SampleSet::test,
               ordinal,
               {{tokens.data(), segments.data(), positions.data(), first.data(), last.data()}});
  }
};

TEST(EmbeddedTexts, ShareSamplesAndDoNotSeeEachOther) {
  // With [CLS] and [SEP] 3, 6 and 4 tokens: the longest goes first, the next longest fits beside
  // it.
  const std::vector<std::string> all = {"a", "wxyz", "bc"};
  const EmbeddedTexts texts(Bytes(), all, 10, 10);
  ASSERT_EQ(texts.size(SampleSet::test), 2);
  EXPECT_EQ(texts.cut(), 0);
  const Sample one(texts, 0, 10);
  EXPECT_THAT(one.tokens, ElementsAre(256, 'w', 'x', 'y', 'z', 257, 256, 'b', 'c', 257));
  EXPECT_THAT(one.positions, ElementsAre(0, 1, 2, 3, 4, 5, 0, 1, 2, 3));
  EXPECT_THAT(one.first, ElementsAre(0, 0, 0, 0, 0, 0, 6, 6, 6, 6));
  EXPECT_THAT(one.last, ElementsAre(5, 5, 5, 5, 5, 5, 9, 9, 9, 9));
  const Sample two(texts, 1, 10);
  EXPECT_THAT(two.tokens, ElementsAre(256, 'a', 257, 258, 258, 258, 258, 258, 258, 258));
  EXPECT_THAT(two.last, ElementsAre(2, 2, 2, -1, -1, -1, -1, -1, -1, -1));
  EXPECT_EQ(texts.places()[2].sample, 0);
  EXPECT_EQ(texts.places()[2].first, 6);
  EXPECT_EQ(texts.places()[0].tokens, 3);
}

TEST(EmbeddedTexts, ALongTextLosesItsEndAndKeepsItsSeparator) {
  const EmbeddedTexts texts(Bytes(), std::vector<std::string>{"abcdefgh"}, 12, 6);
  EXPECT_EQ(texts.cut(), 1);
  EXPECT_THAT(Sample(texts, 0, 12).tokens,
              ElementsAre(256, 'a', 'b', 'c', 'd', 257, 258, 258, 258, 258, 258, 258));
}

TEST(EmbeddedTexts, NeedATokenizerOfBert) {
  EXPECT_THAT(testing::error_of<ConfigError>(
                  [] { EmbeddedTexts(Bytes(false), std::vector<std::string>{"a"}, 6, 6); }),
              HasSubstr("the tokenizer has no [CLS]"));
}

}  // namespace embedded_texts_test
}  // namespace tessera

#include "kernel/train/run/growing_text.hpp"

#include <gmock/gmock.h>

#include "tessera/error.hpp"

namespace tessera {
namespace growing_text_test {

using Ids = std::vector<i32>;

// Each id is a text; a byte of a character that is not whole is decoded to U+FFFD, as some
// tokenizers do.
class Pieces final : public Tokenizer {
 public:
  Pieces(std::vector<std::string> pieces, bool marks) : pieces_(std::move(pieces)), marks_(marks) {}
  i64 do_vocabulary() const override { return static_cast<i64>(pieces_.size()); }
  std::string do_fingerprint() const override { return "pieces"; }
  std::vector<i32> do_encode(std::string_view) const override { return {}; }
  std::string do_decode(const std::vector<i32>& ids) const override {
    std::string text;
    for (const i32 id : ids) text += pieces_.at(static_cast<std::size_t>(id));
    if (!marks_) return text;
    constexpr std::string_view kHalf = "\xC3";
    if (text.ends_with(kHalf)) text.replace(text.size() - 1, 1, "\xEF\xBF\xBD");
    return text;
  }

 private:
  std::vector<std::string> pieces_;
  bool marks_;
};

// What is printed after each token, and how it ends.
struct Seen {
  std::vector<std::string> texts;
  TextEnd end = TextEnd::none;
};

Seen grow(const Tokenizer& tokenizer, const Ids& prompt, const Ids& drawn, TextLimits limits) {
  if (limits.tokens == 0) limits.tokens = 100;
  GrowingText text(tokenizer, prompt, std::move(limits));
  Seen seen;
  for (const i32 id : drawn) {
    text.add(id);
    seen.texts.emplace_back(text.text());
    if (text.over()) break;
  }
  seen.end = text.end();
  return seen;
}

using ::testing::ElementsAre;

TEST(GrowingText, EndsAtItsLength) {
  const Pieces tokenizer({"a", "b"}, false);
  const Seen seen = grow(tokenizer, {0}, {1, 1, 0, 0}, {.tokens = 3});
  EXPECT_THAT(seen.texts, ElementsAre("b", "bb", "bba"));
  EXPECT_EQ(name_of(seen.end), "length");
}

TEST(GrowingText, EndsByATokenThatIsNoPartOfIt) {
  const Pieces tokenizer({"a", "b", "<e>"}, false);
  const Seen seen = grow(tokenizer, {2}, {0, 1, 2}, {.ends = {7, 2}});
  EXPECT_THAT(seen.texts, ElementsAre("a", "ab", "ab"));
  EXPECT_EQ(name_of(seen.end), "eos");
  GrowingText text(tokenizer, {2, 0}, {.tokens = 5, .ends = {2}});
  EXPECT_FALSE(text.over()) << "the prompt does not end it";
  EXPECT_EQ(text.prompt(), "<e>a");
  text.add(2);
  EXPECT_EQ(text.added(), Ids{2});
  EXPECT_EQ(text.tokens(), (Ids{2, 0, 2}));
  EXPECT_THROW(text.add(0), Error);
}

TEST(GrowingText, StopsBeforeATextOfSeveralTokens) {
  const Pieces tokenizer({"a", "ST", "OP", "b", "S"}, false);
  const TextLimits limits{.stops = {"never", "STOP"}};
  // What may be its beginning is held back until it is known.
  EXPECT_THAT(grow(tokenizer, {1}, {0, 1, 2, 3}, limits).texts, ElementsAre("a", "a", "a"));
  EXPECT_EQ(grow(tokenizer, {1}, {0, 1, 2, 3}, limits).end, TextEnd::stop);
  EXPECT_THAT(grow(tokenizer, {1}, {0, 1, 3, 4, 4}, limits).texts,
              ElementsAre("a", "a", "aSTb", "aSTb", "aSTbS"));
  EXPECT_THAT(grow(tokenizer, {1}, {2, 0}, limits).texts, ElementsAre("OP", "OPa"))
      << "it must not begin in the prompt";
  // At its end the text is whole.
  EXPECT_THAT(grow(tokenizer, {0}, {0, 1}, {.tokens = 2, .stops = {"STOP"}}).texts,
              ElementsAre("a", "aST"));
}

TEST(GrowingText, OfSeveralStopsTheFirstInTheTextEndsIt) {
  const Pieces tokenizer({"abcd"}, false);
  for (const auto& stops : {std::vector<std::string>{"cd", "b"}, {"b", "cd"}, {"bc", "b"}}) {
    EXPECT_THAT(grow(tokenizer, {}, {0}, {.stops = stops}).texts, ElementsAre("a"));
  }
}

TEST(GrowingText, HalfACharacterWaitsForTheOtherHalf) {
  for (const bool marks : {false, true}) {
    const Pieces tokenizer({"a", "\xC3", "\xA9"}, marks);
    EXPECT_THAT(grow(tokenizer, {0}, {0, 1, 2}, {}).texts, ElementsAre("a", "a", "a\xC3\xA9"));
    const std::string half = marks ? "\xEF\xBF\xBD" : "\xC3";
    EXPECT_THAT(grow(tokenizer, {0}, {1}, {.tokens = 1}).texts, ElementsAre(half));
  }
}

}  // namespace growing_text_test
}  // namespace tessera

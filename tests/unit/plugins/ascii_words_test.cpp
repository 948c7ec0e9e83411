// The words that ASCII alone decides, against GPT-2's pattern tried alternative by alternative,
// over every text of up to six characters of each kind.
#include "plugins/tokenizers/bpe/ascii_words.hpp"

#include <gtest/gtest.h>

#include <string>

namespace tessera {
namespace ascii_words_test {

constexpr char kBeyond = '\xC3';  // stands for a character beyond ASCII, of any kind
constexpr std::string_view kAlphabet = "salv1 \n'-\xC3";
constexpr std::size_t kLongest = 6;

AsciiKind kind_of(char c, AsciiKind beyond) {
  if (c == kBeyond) return beyond;
  if (c == ' ' || c == '\n') return AsciiKind::space;
  if (c == '1') return AsciiKind::number;
  return c == '\'' || c == '-' ? AsciiKind::sign : AsciiKind::letter;
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
std::size_t by_the_pattern(std::string_view text, AsciiKind beyond) {
  for (const std::string_view end : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (text.starts_with(end)) return end.size();
  }
  const auto run = [&](std::size_t at, AsciiKind kind) {
    while (at < text.size() && kind_of(text[at], beyond) == kind) ++at;
    return at;
  };
  for (const AsciiKind kind : {AsciiKind::letter, AsciiKind::number, AsciiKind::sign}) {
    const std::size_t begin = text[0] == ' ' ? 1 : 0;
    if (const std::size_t end = run(begin, kind); end > begin) return end;
    if (const std::size_t end = run(0, kind); end > 0) return end;
  }
  const std::size_t end = run(0, AsciiKind::space);
  return end == text.size() || end == 1 ? end : end - 1;
}

TEST(AsciiWords, AreThoseOfThePatternWhateverFollows) {
  i64 decided = 0, left = 0;
  const auto check = [&](const std::string& text) {
    const std::size_t end = ascii_word_end(text, 0);
    if (end == 0) {
      ASSERT_NE(text.find(kBeyond), std::string::npos) << text;
      ++left;
      return;
    }
    ++decided;
    for (const AsciiKind beyond :
         {AsciiKind::letter, AsciiKind::number, AsciiKind::sign, AsciiKind::space}) {
      ASSERT_EQ(end, by_the_pattern(text, beyond)) << text;
    }
  };
  std::string text;
  const auto all = [&](const auto& self) -> void {
    if (!text.empty()) check(text);
    if (text.size() == kLongest) return;
    for (const char c : kAlphabet) {
      text += c;
      self(self);
      text.pop_back();
    }
  };
  all(all);
  EXPECT_GT(decided, 700'000);
  EXPECT_GT(left, 100'000);
}

TEST(AsciiWords, HaveTheKindsOfUnicode) {
  for (int c = 0; c < 128; ++c) {
    const bool space = c == ' ' || (c >= 9 && c <= 13);
    const bool letter = std::string_view("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
                            .find(static_cast<char>(c)) != std::string_view::npos;
    const bool number =
        std::string_view("0123456789").find(static_cast<char>(c)) != std::string_view::npos;
    EXPECT_EQ(kAsciiKinds[static_cast<std::size_t>(c)],
              space    ? AsciiKind::space
              : letter ? AsciiKind::letter
              : number ? AsciiKind::number
                       : AsciiKind::sign)
        << c;
  }
  for (std::size_t c = 128; c < 256; ++c) EXPECT_EQ(kAsciiKinds[c], AsciiKind::beyond);
}

TEST(AsciiWords, BeginAnywhereInAText) {
  constexpr std::string_view kText = "I'll  say \xC3\xA9t\xC3\xA9 12";
  EXPECT_EQ(ascii_word_end(kText, 0), 1U);    // I
  EXPECT_EQ(ascii_word_end(kText, 1), 4U);    // 'll
  EXPECT_EQ(ascii_word_end(kText, 4), 5U);    // a space of two
  EXPECT_EQ(ascii_word_end(kText, 5), 9U);    // say
  EXPECT_EQ(ascii_word_end(kText, 9), 0U);    // the pattern's
  EXPECT_EQ(ascii_word_end(kText, 15), 18U);  // 12
}

}  // namespace ascii_words_test
}  // namespace tessera

#include "answer_text.hpp"

#include <algorithm>
#include <map>

#include "letters.hpp"
#include "tessera/io/utf8.hpp"

namespace tessera {

namespace {

// What Python's str.split() divides at.
bool is_space(std::string_view character) {
  if (character.size() == 1) {
    const char c = character[0];
    return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1C && c <= 0x1F);
  }
  constexpr std::string_view kWide[] = {"\u0085",
                                        "\u00A0",
                                        "\u1680",
                                        "\u2000",
                                        "\u2001",
                                        "\u2002",
                                        "\u2003",
                                        "\u2004",
                                        "\u2005",
                                        "\u2006",
                                        "\u2007",
                                        "\u2008",
                                        "\u2009",
                                        "\u200A",
                                        "\u2028",
                                        "\u2029",
                                        "\u202F",
                                        "\u205F",
                                        "\u3000"};
  return std::ranges::find(kWide, character) != std::end(kWide);
}

bool is_punctuation(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
         (c >= '{' && c <= '~');
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  bool within = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view character = next_character(text.substr(at));
    at += character.size();
    if (is_space(character)) {
      within = false;
      continue;
    }
    if (!within) words.emplace_back();
    words.back() += character;
    within = true;
  }
  return words;
}

// A run of letters and numbers that is an article becomes a space.
std::string without_articles(std::string_view text) {
  std::string made, run;
  const auto end_run = [&] {
    const bool article = run == "a" || run == "an" || run == "the";
    made += article ? " " : run;
    run.clear();
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view character = next_character(text.substr(at));
    at += character.size();
    if (is_letter_or_number(character)) {
      run += character;
    } else {
      end_run();
      made += character;
    }
  }
  end_run();
  return made;
}

double f1_of(const std::vector<std::string>& gold,
             const std::vector<std::string>& predicted,
             bool no_answers) {
  if (no_answers && (gold.empty() || predicted.empty())) return gold == predicted ? 1 : 0;
  std::map<std::string_view, int> counts;
  for (const std::string& word : gold) ++counts[word];
  double same = 0;
  for (const std::string& word : predicted) {
    if (counts[word]-- > 0) ++same;
  }
  if (same == 0) return 0;
  const double precision = same / static_cast<double>(predicted.size());
  const double recall = same / static_cast<double>(gold.size());
  return 2 * precision * recall / (precision + recall);
}

}  // namespace

std::string normalized_answer(std::string_view text) {
  std::string plain = lower_case(text);
  std::erase_if(plain, is_punctuation);
  std::string made;
  for (const std::string& word : words_of(without_articles(plain))) {
    if (!made.empty()) made += ' ';
    made += word;
  }
  return made;
}

AnswerScore score_answer(std::string_view predicted,
                         const std::vector<std::string_view>& answers,
                         bool no_answers) {
  std::vector<std::string> gold;
  for (const std::string_view answer : answers) {
    std::string normalized = normalized_answer(answer);
    if (!no_answers || !normalized.empty()) gold.push_back(std::move(normalized));
  }
  if (gold.empty() && no_answers) gold.emplace_back();
  const std::string given = normalized_answer(predicted);
  const std::vector<std::string> words = words_of(given);
  AnswerScore best;
  for (const std::string& one : gold) {
    best.exact = std::max(best.exact, one == given ? 1.0 : 0.0);
    best.f1 = std::max(best.f1, f1_of(words_of(one), words, no_answers));
  }
  return best;
}

}  // namespace tessera

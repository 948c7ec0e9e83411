#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// What the official programs of SQuAD compare (evaluate-v1.1.py, evaluate-v2.0.py): small letters,
/// without ASCII's punctuation, then without the words a, an and the, one space between words.
std::string normalized_answer(std::string_view text);

struct AnswerScore {
  double exact = 0;  ///< 1: the normalized texts are equal
  double f1 = 0;     ///< of the words that both have, each as often as it comes in both
  bool operator==(const AnswerScore&) const = default;
};

/// The best of the answers, for each of the two. Of SQuAD 2.0 (`no_answers`) an answer that
/// normalizes to nothing does not count, a question without one has the answer "", and f1 is 1
/// where both texts have no word; of 1.1 it is 0 there.
AnswerScore score_answer(std::string_view predicted,
                         const std::vector<std::string_view>& answers,
                         bool no_answers);

}  // namespace tessera

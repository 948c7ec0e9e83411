#pragma once
#include <optional>
#include <span>
#include <vector>

#include "squad_spans.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// What a model says of a window: of each place, how likely an answer begins and ends there.
struct WindowScores {
  ContextWindow tokens;               ///< of the context
  std::span<const float> begin, end;  ///< logits of these tokens
  double none = 0;                    ///< begin and end at [CLS]: no answer in this window
};

struct SpanLimits {
  i64 best = 20;     ///< so many of the likeliest begins and ends of a window are looked at
  i64 longest = 30;  ///< tokens of an answer
};

/// An answer, and the sum of its logits.
struct BestSpan {
  TokenSpan tokens;  ///< of the context
  double score = 0;
};

/// The likeliest answer in the windows of a context, as BERT's run_squad looks for it: its end is
/// not before its begin, it has `longest` tokens at most, and its window is the widest around its
/// begin (widest_around). Of equal ones the first. None: nothing is left of the begins and ends.
std::optional<BestSpan> best_span(const std::vector<WindowScores>& windows,
                                  const SpanLimits& limits);

/// How likely no window has an answer: the least of their sums at [CLS].
double no_answer_score(const std::vector<WindowScores>& windows);

/// Does a question have no answer (SQuAD 2.0)? Where that is likelier than the best answer by more
/// than `threshold`, or there is no best one.
bool has_no_answer(const std::vector<WindowScores>& windows,
                   const std::optional<BestSpan>& best,
                   double threshold);

}  // namespace tessera

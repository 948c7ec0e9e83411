#include "best_span.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace tessera {

namespace {

// Places of the largest logits, the largest first; of equal ones the first.
std::vector<i64> largest(std::span<const float> logits, i64 most) {
  std::vector<i64> places(logits.size());
  std::iota(places.begin(), places.end(), i64{0});
  std::ranges::stable_sort(
      places, std::greater<>(), [&](i64 i) { return logits[static_cast<std::size_t>(i)]; });
  if (static_cast<i64>(places.size()) > most) places.resize(static_cast<std::size_t>(most));
  return places;
}

}  // namespace

std::optional<BestSpan> best_span(const std::vector<WindowScores>& windows,
                                  const SpanLimits& limits) {
  std::vector<ContextWindow> places;
  for (const WindowScores& window : windows) places.push_back(window.tokens);
  std::optional<BestSpan> best;
  for (std::size_t w = 0; w < windows.size(); ++w) {
    const WindowScores& window = windows[w];
    const std::vector<i64> ends = largest(window.end, limits.best);
    for (const i64 begin : largest(window.begin, limits.best)) {
      const i64 first = window.tokens.begin + begin;
      if (widest_around(first, places) != w) continue;
      for (const i64 end : ends) {
        if (end < begin || end - begin >= limits.longest) continue;
        const double score = double{window.begin[static_cast<std::size_t>(begin)]} +
                             double{window.end[static_cast<std::size_t>(end)]};
        if (best && score <= best->score) continue;
        best = BestSpan{{first, window.tokens.begin + end}, score};
      }
    }
  }
  return best;
}

double no_answer_score(const std::vector<WindowScores>& windows) {
  double least = std::numeric_limits<double>::infinity();
  for (const WindowScores& window : windows) least = std::min(least, window.none);
  return least;
}

bool has_no_answer(const std::vector<WindowScores>& windows,
                   const std::optional<BestSpan>& best,
                   double threshold) {
  return !best || no_answer_score(windows) - best->score > threshold;
}

}  // namespace tessera
